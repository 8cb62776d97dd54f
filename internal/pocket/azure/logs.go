package azure

import (
	"net/http"
	"strconv"
	"strings"

	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"
)

// listLogs gives the end of a container's log. See
// https://learn.microsoft.com/en-us/rest/api/container-instances/containers/list-logs
func (s *Server) listLogs(c *call) (result, *Error) {
	g, e := s.find(c)
	if e != nil {
		return result{}, e
	}
	query := c.request.URL.Query()
	tail, stamps := 0, false
	if text := query.Get("tail"); text != "" {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 1 {
			return result{}, refuse(ruleTail, "The value '%s' of 'tail' is invalid. It must be a positive number.", text)
		}
		tail = int(n)
	}
	if text := query.Get("timestamps"); text != "" {
		var err error
		if stamps, err = strconv.ParseBool(text); err != nil {
			return result{}, refuse(ruleTail, "The value '%s' of 'timestamps' is invalid. It must be true or false.", text)
		}
	}
	for _, own := range g.Containers {
		if !strings.EqualFold(own.Name, c.path["container"]) {
			continue
		}
		if !own.Out.state() || s.knobs.StopDropsView && g.State == stopped {
			return s.earlyLog(g, own)
		}
		if s.knobs.LogNull && own.Current != nil && *own.Current.State == running {
			return result{http.StatusOK, map[string]any{"content": nil}}, nil
		}
		text := own.Out.text(tail, stamps, g.State == stopped || s.knobs.EndedLogSmall && own.Current != nil && *own.Current.State == terminated)
		return result{http.StatusOK, arm.Logs{Content: &text}}, nil
	}
	return result{}, refuse(ruleContainer, "The container '%s' in container group '%s' was not found.", c.path["container"], g.name())
}

// earlyLog answers for a container that hasn't started.
func (s *Server) earlyLog(g *group, c *container) (result, *Error) {
	switch s.knobs.EarlyLogs {
	case "":
		return result{http.StatusOK, map[string]any{"content": nil}}, nil
	case "ContainerGroupTransitioning":
		return result{}, refuse(ruleTransitioning, "The container group '%s' is still transitioning, please retry later.", g.name())
	default:
		return result{}, &Error{Status: http.StatusNotFound, Code: s.knobs.EarlyLogs, Message: "The log of container '" + c.Name + "' in container group '" + g.name() + "' is not available."}
	}
}

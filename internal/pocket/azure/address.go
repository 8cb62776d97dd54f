package azure

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"strings"

	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"
)

// checkAddress checks a group's address and its containers' ports. Nothing listens
// there: containers are processes of this machine, or Docker's without ports.
// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-container-groups#networking
func checkAddress(name string, p *arm.ContainerGroupPropertiesProperties) *Error {
	bad := func(format string, args ...any) *Error {
		return refuse(ruleAddress, "The IP address of container group '%s' is invalid: %s.", name, fmt.Sprintf(format, args...))
	}
	key := func(port *int32, protocol string) string {
		if port == nil || *port < 1 || *port > 65535 {
			return ""
		}
		if protocol == "" {
			protocol = string(arm.ContainerGroupNetworkProtocolTCP)
		}
		return fmt.Sprint(strings.ToUpper(protocol), *port)
	}
	ports := map[string]bool{}
	for _, c := range p.Containers {
		if c == nil || c.Properties == nil {
			continue
		}
		for _, port := range c.Properties.Ports {
			protocol := ""
			if port.Protocol != nil {
				protocol = string(*port.Protocol)
			}
			k := key(port.Port, protocol)
			if k == "" || ports[k] {
				return bad("a container's port is out of range, or stands twice")
			}
			ports[k] = true
		}
	}
	a := p.IPAddress
	if a == nil {
		return nil
	}
	if a.Type == nil || !normal(&a.Type, arm.PossibleContainerGroupIPAddressTypeValues()) {
		return bad("its type is Public or Private")
	}
	if private := *a.Type == arm.ContainerGroupIPAddressTypePrivate; private != (len(p.SubnetIDs) > 0) {
		return bad("a private address goes with a subnet, a public one without")
	}
	if len(a.Ports) == 0 {
		return bad("it has no ports")
	}
	seen := map[string]bool{}
	for _, port := range a.Ports {
		protocol := ""
		if port.Protocol != nil {
			protocol = string(*port.Protocol)
		}
		k := key(port.Port, protocol)
		if !ports[k] || seen[k] {
			return bad("a port stands twice, or is no container's")
		}
		seen[k] = true
	}
	return nil
}

// address is a group's for its next life. The block is one for documentation.
// https://datatracker.ietf.org/doc/html/rfc2544
func (s *Server) address(g *group, inPlace bool) string {
	a := g.Body.Properties.IPAddress
	switch {
	case a == nil:
		return ""
	case inPlace && g.Address != "":
		return g.Address
	}
	for {
		b := [4]byte{198, 18}
		_, _ = rand.Read(b[2:]) // it never fails
		if text := netip.AddrFrom4(b).String(); text != g.Address {
			return text
		}
	}
}

// Package sts is the pocket cloud's Security Token Service: it says who calls.
// It speaks AWS's query protocol, forms in and XML out. See
// https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html.
package sts

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
	"github.com/windlass-run/windlass/internal/pocket/fault"
)

// Version is that of the API, which every call must name.
const Version = "2011-06-15"

// Service is STS of one account.
type Service struct {
	// Account has twelve digits.
	Account string
}

type identity struct {
	XMLName xml.Name `xml:"https://sts.amazonaws.com/doc/2011-06-15/ GetCallerIdentityResponse"`
	Arn     string   `xml:"GetCallerIdentityResult>Arn"`
	UserID  string   `xml:"GetCallerIdentityResult>UserId"`
	Account string   `xml:"GetCallerIdentityResult>Account"`
	ID      string   `xml:"ResponseMetadata>RequestId"`
}

type failure struct {
	XMLName xml.Name `xml:"https://sts.amazonaws.com/doc/2011-06-15/ ErrorResponse"`
	Type    string   `xml:"Error>Type"`
	Code    string   `xml:"Error>Code"`
	Message string   `xml:"Error>Message"`
	ID      string   `xml:"RequestId"`
}

// Do carries out a call; form is its body.
func (s *Service) Do(call awsjson.Call, form url.Values) fault.Reply {
	if v := form.Get("Version"); v != Version {
		return s.Fail(call, &awsjson.Error{Code: "NoSuchVersion", Message: fmt.Sprintf("The requested version (%s) is not valid.", v)})
	}
	if call.Action != "GetCallerIdentity" {
		return s.Fail(call, &awsjson.Error{Code: "InvalidAction", Message: fmt.Sprintf("Could not find operation %s for version %s", call.Action, Version)})
	}
	for name := range form {
		if name != "Action" && name != "Version" {
			return s.Fail(call, &awsjson.Error{Code: "ValidationError", Message: "unknown parameter " + name})
		}
	}
	if call.JSON {
		return s.inJSON(call)
	}
	return s.reply(http.StatusOK, identity{Arn: s.arn(call), UserID: userID, Account: s.Account, ID: call.ID})
}

const userID = "AIDAPOCKETPOCKETPOCKE"

func (s *Service) arn(call awsjson.Call) string {
	return fmt.Sprintf("arn:aws:iam::%s:user/%s", s.Account, call.AccessKey)
}

// inJSON is the answer for callers that accept JSON, as the authenticator of EKS does:
// https://github.com/kubernetes-sigs/aws-iam-authenticator/blob/master/pkg/token/token.go
func (s *Service) inJSON(call awsjson.Call) fault.Reply {
	body, err := json.Marshal(map[string]any{"GetCallerIdentityResponse": map[string]any{
		"GetCallerIdentityResult": map[string]string{"Account": s.Account, "Arn": s.arn(call), "UserId": userID},
		"ResponseMetadata":        map[string]string{"RequestId": call.ID}}})
	if err != nil {
		panic("sts: " + err.Error()) // texts of ours
	}
	return fault.Reply{Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}
}

// Fail writes an error as the query protocol does.
func (s *Service) Fail(call awsjson.Call, e *awsjson.Error) fault.Reply {
	status, who := e.Status, "Sender"
	if status == 0 {
		status = http.StatusBadRequest
	}
	if status >= http.StatusInternalServerError {
		who = "Receiver"
	}
	return s.reply(status, failure{Type: who, Code: e.Code, Message: e.Message, ID: call.ID})
}

func (s *Service) reply(status int, v any) fault.Reply {
	body, err := xml.Marshal(v)
	if err != nil {
		panic("sts: " + err.Error()) // structs of ours
	}
	return fault.Reply{Status: status, Header: http.Header{"Content-Type": {"text/xml"}}, Body: body}
}

package eks

import (
	"net/http"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
)

// The IDs of the rules.
const (
	ruleCluster   = "eks-cluster"
	ruleNextToken = "eks-next-token"
)

const api = "https://docs.aws.amazon.com/eks/latest/APIReference/"

// Rules returns what the service keeps beyond its model, each with the page that
// says so.
func Rules() awsjson.Rules {
	return awsjson.Rules{
		{ID: ruleCluster, Code: "ResourceNotFoundException", Text: "The cluster must exist.", Doc: api + "API_DescribeCluster.html"},
		{ID: ruleNextToken, Code: "InvalidParameterException", Text: "nextToken is one that the same listing gave.", Doc: api + "API_ListClusters.html"},
	}
}

// refuse makes the error of a rule that was broken. What isn't found has a status of
// its own here.
func refuse(rule, format string, args ...any) *awsjson.Error {
	e := Rules().Refuse(rule, format, args...)
	if rule == ruleCluster {
		e.Status = http.StatusNotFound
	}
	return e
}

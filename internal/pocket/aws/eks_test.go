package aws

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
	"github.com/windlass-run/windlass/internal/pocket/eks"
)

// authenticator is the webhook of a cluster of a cloud.
func (c *cloud) authenticator(cluster string) eks.Authenticator {
	return eks.Authenticator{Cluster: cluster, Endpoint: c.url, Client: http.DefaultClient, Now: c.o.Now}
}

// TestEKSCLI lets a client that nobody here wrote find a cluster, and make a token that
// the cluster's webhook takes.
func TestEKSCLI(t *testing.T) {
	c := newCloud(t, Options{Secrets: map[string]string{"POCKET": "pocket"}})
	c.EKS().Put(eks.Cluster{Name: "prod", Endpoint: "https://127.0.0.1:6443", Authority: []byte("PEM")})
	c.EKS().Put(eks.Cluster{Name: "made", Status: "CREATING"})
	c.EKS().Put(eks.Cluster{Name: "closed", Endpoint: "https://10.0.0.1", Authority: []byte("PEM"), Private: true})
	aws := newCLI(t, c.url)
	got := aws.run(t, "eks", "describe-cluster", "--name", "prod")["cluster"].(doc)
	if got["endpoint"] != "https://127.0.0.1:6443" || got["status"] != "ACTIVE" || got["certificateAuthority"].(doc)["data"] != base64.StdEncoding.EncodeToString([]byte("PEM")) ||
		got["resourcesVpcConfig"].(doc)["endpointPublicAccess"] != true {
		t.Errorf("describe-cluster: %v", got)
	}
	if got := aws.run(t, "eks", "describe-cluster", "--name", "made")["cluster"].(doc); got["endpoint"] != nil || got["status"] != "CREATING" {
		t.Errorf("describe-cluster of one that is made: %v", got)
	}
	if got := aws.run(t, "eks", "list-clusters", "--page-size", "2")["clusters"].([]any); len(got) != 3 || got[0] != "closed" || got[2] != "prod" {
		t.Errorf("list-clusters: %v", got)
	}
	if got := aws.fails(t, "eks", "describe-cluster", "--name", "nosuch"); !strings.Contains(got, "(ResourceNotFoundException)") || !strings.Contains(got, "No cluster found for name: nosuch.") {
		t.Errorf("describe-cluster of none: %s", got)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if out, err := aws.command(t, "eks", "update-kubeconfig", "--name", "prod", "--kubeconfig", file).CombinedOutput(); err != nil {
		t.Errorf("update-kubeconfig: %v: %s", err, out)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "server: https://127.0.0.1:6443") {
		t.Errorf("the kubeconfig is %s, %v", text, err)
	}

	cmd := aws.command(t, "eks", "get-token", "--cluster-name", "prod", "--query", "status.token")
	cmd.Env = append(cmd.Env, "AWS_ENDPOINT_URL_STS="+c.url) // the command's own client for STS knows no --endpoint-url
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	token := strings.Trim(string(out), "\"\n")
	if arn, err := c.authenticator("prod").Whose(t.Context(), token); err != nil || arn != "arn:aws:iam::"+Account+":user/POCKET" {
		t.Errorf("the token is of %q, %v", arn, err)
	}
	if arn, err := c.authenticator("other").Whose(t.Context(), token); err == nil || !strings.Contains(err.Error(), "SignatureDoesNotMatch") {
		t.Errorf("at another cluster the token is of %q, %v", arn, err)
	}
}

// TestEKSTokens: whatever a token shouldn't be is refused.
func TestEKSTokens(t *testing.T) {
	now := time.Now()
	c := newCloud(t, Options{Secrets: map[string]string{"POCKET": "pocket"}, Now: func() time.Time { return now }})
	good := func() (string, url.Values) {
		at := now.UTC().Format("20060102T150405Z")
		return c.url + "/", url.Values{"Action": {"GetCallerIdentity"}, "Version": {"2011-06-15"}, "X-Amz-Algorithm": {"AWS4-HMAC-SHA256"}, "X-Amz-Date": {at}, "X-Amz-Expires": {"60"},
			"X-Amz-Credential": {"STRANGER/" + at[:8] + "/" + Region + "/sts/aws4_request"}, "X-Amz-SignedHeaders": {"host;x-k8s-aws-id"}, "X-Amz-Signature": {strings.Repeat("0", 64)}}
	}
	for name, k := range map[string]struct {
		change func(at *string, q url.Values)
		want   string
	}{
		"a good one":       {func(*string, url.Values) {}, ""},
		"another host":     {func(at *string, _ url.Values) { *at = "https://sts.evil.example/" }, "unexpected hostname"},
		"another path":     {func(at *string, _ url.Values) { *at += "x" }, "unexpected path"},
		"another call":     {func(_ *string, q url.Values) { q.Set("Action", "AssumeRole") }, "unexpected action"},
		"a parameter more": {func(_ *string, q url.Values) { q.Set("RoleArn", "x") }, "non-whitelisted"},
		"one twice":        {func(_ *string, q url.Values) { q.Add("Action", "GetCallerIdentity") }, "multiple values"},
		"no cluster":       {func(_ *string, q url.Values) { q.Set("X-Amz-SignedHeaders", "host") }, "did not sign"},
		"no expiry":        {func(_ *string, q url.Values) { q.Del("X-Amz-Expires") }, "invalid X-Amz-Expires"},
		"a long expiry":    {func(_ *string, q url.Values) { q.Set("X-Amz-Expires", "901") }, "invalid X-Amz-Expires"},
		"no date":          {func(_ *string, q url.Values) { q.Del("X-Amz-Date") }, "X-Amz-Date"},
		"an old one": {func(_ *string, q url.Values) {
			q.Set("X-Amz-Date", now.Add(-16*time.Minute).UTC().Format("20060102T150405Z"))
		}, "expired"},
		"of another region": {func(_ *string, q url.Values) {
			q.Set("X-Amz-Credential", "STRANGER/"+q.Get("X-Amz-Date")[:8]+"/us-east-1/sts/aws4_request")
		}, "got 403"},
		"of a wrong key": {func(_ *string, q url.Values) {
			q.Set("X-Amz-Credential", "POCKET/"+q.Get("X-Amz-Date")[:8]+"/"+Region+"/sts/aws4_request")
		}, "SignatureDoesNotMatch"},
	} {
		at, q := good()
		k.change(&at, q)
		_, err := c.authenticator("prod").Whose(t.Context(), "k8s-aws-v1."+base64.RawURLEncoding.EncodeToString([]byte(at+"?"+q.Encode())))
		if (err == nil) != (k.want == "") || err != nil && !strings.Contains(err.Error(), k.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, token := range []string{"", "k8s-aws-v2.x", "k8s-aws-v1.===", "k8s-aws-v1." + strings.Repeat("A", 5000)} {
		if _, err := c.authenticator("prod").Whose(t.Context(), token); err == nil {
			t.Errorf("%.20q was taken", token)
		}
	}
}

// TestEKSRules breaks every rule that EKS keeps.
func TestEKSRules(t *testing.T) {
	c := newCloud(t, Options{})
	for _, k := range []struct {
		rule, path string
		status     int
	}{
		{"eks-cluster", "/clusters/nosuch", http.StatusNotFound},
		{"eks-next-token", "/clusters?nextToken=nosuch", http.StatusBadRequest},
		{"", "/clusters?maxResults=101", http.StatusBadRequest},
		{"", "/clusters?colour=red", http.StatusBadRequest},
		{"", "/clusters/a/node-groups", http.StatusNotFound},
	} {
		req := c.batchRequest(t, http.MethodGet, k.path, nil)
		req.Header.Set("Authorization", strings.Replace(req.Header.Get("Authorization"), "/batch/", "/eks/", 1))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		if resp.StatusCode != k.status || resp.Header.Get(awsjson.RuleHeader) != k.rule || resp.Header.Get("X-Amzn-Errortype") == "" {
			t.Errorf("%s: status %d, rule %q, %s", k.path, resp.StatusCode, resp.Header.Get(awsjson.RuleHeader), resp.Header.Get("X-Amzn-Errortype"))
		}
	}
}

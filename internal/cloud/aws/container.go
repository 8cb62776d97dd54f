package aws

import (
	"fmt"
	"net/netip"
	"net/url"
	"os"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
)

// containerHost is where ECS serves the credentials of a task's role.
// https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html
const containerHost = "http://169.254.170.2"

// containerEndpoint returns where a container gets its credentials, by the
// variables that its platform gave it, or nothing. They are the submitter's:
// the vendor's own chain would look for them in this process.
func containerEndpoint(v map[string]string) string {
	if uri := v["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"]; uri != "" {
		return containerHost + uri
	}
	return v["AWS_CONTAINER_CREDENTIALS_FULL_URI"]
}

// containerCredentials gets a container's credentials. Without TLS they come
// only from this machine, or from where ECS and EKS serve them.
func containerCredentials(v map[string]string, client awssdk.HTTPClient) (awssdk.CredentialsProvider, error) {
	endpoint := containerEndpoint(v)
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, fmt.Errorf("%q is no URL", endpoint)
	}
	if u.Scheme != "https" && !containerHosts(u) {
		return nil, fmt.Errorf("%s is neither on this machine nor the address of ECS or EKS", u.Host)
	}
	return endpointcreds.New(endpoint, func(o *endpointcreds.Options) {
		o.HTTPClient = client
		o.Retryer = awssdk.NopRetryer{}
		o.AuthorizationToken = v["AWS_CONTAINER_AUTHORIZATION_TOKEN"]
		if file := v["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"]; file != "" {
			o.AuthorizationTokenProvider = endpointcreds.TokenProviderFunc(func() (string, error) {
				data, err := os.ReadFile(file)
				return string(data), err
			})
		}
	}), nil
}

func containerHosts(u *url.URL) bool {
	if u.Scheme != "http" {
		return false
	}
	if u.Hostname() == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return false
	}
	addr = addr.Unmap()
	return addr.IsLoopback() || addr == netip.MustParseAddr("169.254.170.2") || addr == netip.MustParseAddr("169.254.170.23") || addr == netip.MustParseAddr("fd00:ec2::23")
}

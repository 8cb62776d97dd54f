package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/windlass-run/windlass/sdk"
)

// withCredentials sets the provider of credentials: keys, else a web identity,
// else the vendor's chain where it is allowed. It returns the chain's region.
func (x *Session) withCredentials(ctx context.Context, s Settings, cfg *awssdk.Config) (region string, err error) {
	v := s.Credentials
	switch {
	case v["AWS_ACCESS_KEY_ID"] != "" && v["AWS_SECRET_ACCESS_KEY"] != "":
		cfg.Credentials = marked{credentials.NewStaticCredentialsProvider(v["AWS_ACCESS_KEY_ID"], v["AWS_SECRET_ACCESS_KEY"], v["AWS_SESSION_TOKEN"])}
		return "", nil
	case v["AWS_WEB_IDENTITY_TOKEN_FILE"] != "" && v["AWS_ROLE_ARN"] != "":
		// The exchange itself is not signed; its region is the session's.
		exchange := cfg.Copy()
		exchange.Region = cmp.Or(s.Region, v["AWS_REGION"], v["AWS_DEFAULT_REGION"], "us-east-1")
		role := stscreds.NewWebIdentityRoleProvider(sts.NewFromConfig(exchange), v["AWS_ROLE_ARN"], stscreds.IdentityTokenFile(v["AWS_WEB_IDENTITY_TOKEN_FILE"]),
			func(o *stscreds.WebIdentityRoleOptions) {
				o.RoleSessionName = cmp.Or(v["AWS_ROLE_SESSION_NAME"], "windlass")
			})
		cfg.Credentials = awssdk.NewCredentialsCache(marked{role})
		return "", nil
	case s.Ambient && v["AWS_PROFILE"] == "" && containerEndpoint(v) != "":
		p, err := containerCredentials(v, cfg.HTTPClient)
		if err != nil {
			return "", s.problem("AWS_CONTAINER_CREDENTIALS_FULL_URI", err, "unset it, or set AWS_PROFILE")
		}
		cfg.Credentials = awssdk.NewCredentialsCache(marked{p})
		return "", nil
	case s.Ambient:
		return x.withChain(ctx, s, cfg)
	}
	return "", &sdk.Error{Code: sdk.Unauthenticated, Op: "open provider", Provider: s.Provider, Err: errors.New("there are no credentials"),
		Remedy: "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN; or write credentials: ambient in the provider's entry"}
}

// withChain uses the vendor's chain with the submitter's variables, which are
// not always those of this process.
func (x *Session) withChain(ctx context.Context, s Settings, cfg *awssdk.Config) (region string, err error) {
	v := s.Credentials
	home := cmp.Or(v["HOME"], v["USERPROFILE"])
	file := func(name, variable string) []string {
		switch {
		case v[variable] != "":
			return []string{v[variable]}
		case home != "":
			return []string{filepath.Join(home, ".aws", name)}
		}
		return nil
	}
	// The chain has a client of its own: it adds AWS_CA_BUNDLE to it by itself.
	opts := []func(*config.LoadOptions) error{
		config.WithSharedConfigFiles(file("config", "AWS_CONFIG_FILE")),
		config.WithSharedCredentialsFiles(file("credentials", "AWS_SHARED_CREDENTIALS_FILE")),
	}
	if p := v["AWS_PROFILE"]; p != "" {
		opts = append(opts, config.WithSharedConfigProfile(p))
	}
	if r := cmp.Or(s.Region, v["AWS_REGION"], v["AWS_DEFAULT_REGION"]); r != "" {
		opts = append(opts, config.WithRegion(r))
	}
	if strings.EqualFold(v["AWS_EC2_METADATA_DISABLED"], "true") {
		opts = append(opts, config.WithEC2IMDSClientEnableState(imds.ClientDisabled))
	}
	if e := v["AWS_EC2_METADATA_SERVICE_ENDPOINT"]; e != "" {
		opts = append(opts, config.WithEC2IMDSEndpoint(e))
	}
	ctx, cancel := context.WithTimeout(ctx, x.timeout)
	defer cancel()
	got, err := config.LoadDefaultConfig(ctx, opts...)
	if err != nil {
		return "", &sdk.Error{Code: sdk.Unauthenticated, Op: "open provider", Provider: s.Provider, Err: fmt.Errorf("the vendor's chain of credentials: %w", err),
			Remedy: "check AWS_PROFILE and the files in ~/.aws"}
	}
	cfg.Credentials = awssdk.NewCredentialsCache(marked{got.Credentials})
	return got.Region, nil
}

// marked tells a failure to get credentials, where nothing was sent, from a
// failure of the call itself.
type marked struct{ awssdk.CredentialsProvider }

// Retrieve implements aws.CredentialsProvider.
func (m marked) Retrieve(ctx context.Context) (awssdk.Credentials, error) {
	c, err := m.CredentialsProvider.Retrieve(ctx)
	if err != nil {
		return c, &noCredentials{err}
	}
	return c, nil
}

type noCredentials struct{ err error }

func (e *noCredentials) Error() string { return "no credentials could be had: " + e.err.Error() }

func (e *noCredentials) Unwrap() error { return e.err }

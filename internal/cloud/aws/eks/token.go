package eks

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/windlass-run/windlass/internal/cloud/hosted"
)

// A token of EKS is a call of GetCallerIdentity that its bearer has signed and the
// cluster carries out: STS then tells the cluster whose token it is. The cluster's name
// is signed as a header, so that no other cluster can use the token.
// https://github.com/kubernetes-sigs/aws-iam-authenticator#api-authorization-from-outside-a-cluster
const (
	tokenPrefix   = "k8s-aws-v1."
	clusterHeader = "X-K8s-Aws-Id"
	// life is how long STS takes such a call, whatever X-Amz-Expires says, which only
	// has to be there.
	// https://github.com/kubernetes-sigs/aws-iam-authenticator/blob/master/pkg/token/token.go
	life         = 15 * time.Minute
	expiresQuery = "60"
)

// Token implements hosted.Source. It makes no call but one for credentials, where
// those have run out.
func (s *source) Token(ctx context.Context) (hosted.Token, error) {
	var out hosted.Token
	err := s.session.Call(ctx, "make a token for the cluster", func(ctx context.Context) error {
		creds, err := s.session.Config.Credentials.Retrieve(ctx)
		if err != nil {
			return err
		}
		made := time.Now()
		presign := sts.NewPresignClient(sts.NewFromConfig(s.session.Config), func(o *sts.PresignOptions) {
			o.Presigner = presigner{v4.NewSigner(), s.cluster, made}
		})
		call, err := presign.PresignGetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
		if err != nil {
			return err
		}
		if call.SignedHeader.Get(clusterHeader) == "" {
			return fmt.Errorf("the signature doesn't cover %s", clusterHeader)
		}
		out = hosted.Token{Value: tokenPrefix + base64.RawURLEncoding.EncodeToString([]byte(call.URL)), Expires: made.Add(life)}
		if creds.CanExpire && creds.Expires.Before(out.Expires) {
			out.Expires = creds.Expires
		}
		return nil
	})
	return out, err
}

// presigner signs for one cluster.
type presigner struct {
	signer  *v4.Signer
	cluster string
	at      time.Time
}

// PresignHTTP implements sts.HTTPPresignerV4.
func (p presigner) PresignHTTP(ctx context.Context, c awssdk.Credentials, r *http.Request, hash, service, region string, _ time.Time, opts ...func(*v4.SignerOptions)) (string, http.Header, error) {
	if r.URL == nil {
		return "", nil, errors.New("there is no address to sign")
	}
	r.Header.Set(clusterHeader, p.cluster)
	query := r.URL.Query()
	query.Set("X-Amz-Expires", expiresQuery)
	r.URL.RawQuery = query.Encode()
	return p.signer.PresignHTTP(ctx, c, r, hash, service, region, p.at, opts...)
}

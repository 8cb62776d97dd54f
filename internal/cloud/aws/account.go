package aws

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/windlass-run/windlass/sdk"
)

// Caller is who a session's credentials speak for.
type Caller struct{ Account, ARN string }

// WhoAmI asks STS. The call needs no permission.
// https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html
func (x *Session) WhoAmI(ctx context.Context) (Caller, error) {
	var c Caller
	err := x.Call(ctx, "look up the account", func(ctx context.Context) error {
		out, err := x.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
		if err != nil {
			return err
		}
		c = Caller{Account: awssdk.ToString(out.Account), ARN: awssdk.ToString(out.Arn)}
		if !accountID.MatchString(c.Account) {
			return fmt.Errorf("STS gave the account %q", c.Account)
		}
		return nil
	})
	return c, err
}

// account is whether a session's credentials are known to be of its account.
type account struct {
	// lock is held by whoever asks.
	lock  chan struct{}
	known bool
}

// CheckAccount returns FailedPrecondition where the credentials are of another
// account than the one that is configured, so that nothing is made there. It
// asks once; where nobody answers, nothing is known and nothing refused.
func (x *Session) CheckAccount(ctx context.Context, op string) error {
	select {
	case x.mine.lock <- struct{}{}:
	case <-ctx.Done():
		return x.mapError(ctx, ctx, op, ctx.Err())
	}
	defer func() { <-x.mine.lock }()
	if x.mine.known {
		return nil
	}
	got, err := x.knownAccount(ctx, x.settings)
	switch {
	case ctx.Err() != nil:
		return x.mapError(ctx, ctx, op, ctx.Err())
	case err != nil:
		return nil
	case got != x.Account:
		return &sdk.Error{Code: sdk.FailedPrecondition, Op: op, Provider: x.provider, Field: "config.account", Reason: sdk.ReasonCredentials,
			Err: fmt.Errorf("the credentials are of the account %s, the provider is for %s", got, x.Account), Remedy: "use other credentials, or change account under config:"}
	}
	x.mine.known = true
	return nil
}

// knownAccount returns the account of the session's key, from the note of an
// earlier session or from STS. A key belongs to one account for as long as it
// exists, so a note never goes stale.
func (x *Session) knownAccount(ctx context.Context, s Settings) (string, error) {
	var creds awssdk.Credentials
	err := x.Call(ctx, "open provider", func(ctx context.Context) (err error) {
		creds, err = x.Config.Credentials.Retrieve(ctx)
		return err
	})
	if err != nil {
		return "", err
	}
	if accountID.MatchString(creds.AccountID) {
		return creds.AccountID, nil
	}
	// An endpoint of this machine may be another cloud tomorrow.
	note := ""
	if s.StateDir != "" && s.Endpoint == "" {
		sum := sha256.Sum256([]byte(x.Partition + "/" + creds.AccessKeyID))
		note = filepath.Join(s.StateDir, "account-"+hex.EncodeToString(sum[:8])+".json")
		if a, ok := readAccount(note); ok {
			return a, nil
		}
	}
	c, err := x.WhoAmI(ctx)
	if err != nil {
		var e *sdk.Error
		if errors.As(err, &e) && e.Remedy == "" && s.Endpoint == "" {
			named := *e
			named.Remedy = "or set account under config:, which saves the question"
			return "", &named
		}
		return "", err
	}
	if note != "" {
		writeAccount(note, c.Account)
	}
	return c.Account, nil
}

type accountNote struct {
	V       int    `json:"v"`
	Account string `json:"account"`
}

func readAccount(file string) (string, bool) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", false
	}
	var n accountNote
	if json.Unmarshal(data, &n) != nil || n.V != 1 || !accountID.MatchString(n.Account) {
		return "", false
	}
	return n.Account, true
}

// writeAccount keeps a note where it can: without one the next session asks
// again.
func writeAccount(file, account string) {
	data, err := json.Marshal(accountNote{V: 1, Account: account})
	if err != nil {
		return
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".account-*")
	if err != nil {
		return
	}
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
}

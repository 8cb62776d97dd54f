package runner

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/windlass-run/windlass/sdk"
)

// authHeader carries a token, as "Bearer TOKEN".
const (
	authHeader = "authorization"
	bearer     = "Bearer "
)

// door tells who calls.
type door struct {
	// accounts are the clients by name. With open, every certified name has an
	// account with nothing but the strict profile.
	accounts map[string]*account
	open     bool
	tokens   []doorToken
}

// doorToken is a token as the door keeps it.
type doorToken struct {
	sum [sha256.Size]byte
	acc *account
}

// newDoor checks the clients; several tokens that are the same are refused.
func newDoor(clients []Client, open bool) (*door, error) {
	d := &door{accounts: map[string]*account{}, open: open}
	for _, c := range clients {
		acc, err := newAccount(c)
		if err != nil {
			return nil, fmt.Errorf("client %s: %w", c.Name, err)
		}
		if d.accounts[c.Name] != nil {
			return nil, fmt.Errorf("client %s is there twice", c.Name)
		}
		d.accounts[c.Name] = acc
		if len(c.Token.Reveal()) == 0 {
			continue
		}
		t := doorToken{sha256.Sum256(c.Token.Reveal()), acc}
		for _, o := range d.tokens {
			if o.sum == t.sum {
				return nil, fmt.Errorf("clients %s and %s have the same token", o.acc.Name, c.Name)
			}
		}
		d.tokens = append(d.tokens, t)
	}
	return d, nil
}

// enter returns who makes a call, by the token that it brings, else by the
// certificate of its connection. A certificate and a token of two different
// clients are refused, and so is the certificate alone of one that has a token.
func (d *door) enter(ctx context.Context) (*account, error) {
	certified, err := certifiedName(ctx)
	if err != nil {
		return nil, unknown(err)
	}
	md, _ := metadata.FromIncomingContext(ctx)
	switch values := md.Get(authHeader); {
	case len(values) > 1:
		return nil, unknown(errors.New("several authorization headers"))
	case len(values) == 1:
		acc := d.byToken(values[0])
		if acc == nil {
			return nil, unknown(errors.New("no client has this token"))
		}
		if certified != "" && certified != acc.Name {
			return nil, unknown(errors.New("the certificate and the token belong to different clients"))
		}
		return acc, nil
	case certified == "":
		return nil, unknown(errors.New("neither a certificate nor a token"))
	}
	acc := d.accounts[certified]
	switch {
	case acc == nil && d.open:
		return newAccount(Client{Name: certified})
	case acc == nil:
		return nil, &sdk.Error{Code: sdk.PermissionDenied, Op: "authenticate", ID: ErrUnknown, Err: fmt.Errorf("%s isn't among the clients", certified)}
	case len(acc.Token.Reveal()) > 0:
		return nil, unknown(fmt.Errorf("%s needs its token, beside the certificate", certified))
	}
	return acc, nil
}

// byToken compares with every token in constant time, whatever their number and
// lengths; nil when none is it.
func (d *door) byToken(header string) *account {
	// The scheme's name is no secret (RFC 9110, 11.1: in any case).
	if len(header) < len(bearer) || !strings.EqualFold(header[:len(bearer)], bearer) {
		return nil
	}
	sum := sha256.Sum256([]byte(header[len(bearer):]))
	found := -1
	for i := range d.tokens {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], d.tokens[i].sum[:]), i, found)
	}
	if found < 0 {
		return nil
	}
	return d.tokens[found].acc
}

// certifiedName is the name in the certificate that the connection has proven;
// empty when it brought none.
func certifiedName(ctx context.Context) (string, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return "", errors.New("no connection")
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return "", errors.New("no TLS")
	}
	if len(info.State.VerifiedChains) == 0 {
		return "", nil
	}
	return nameOf(info.State.VerifiedChains[0][0])
}

// nameOf is a certificate's name: its common name, else its only DNS name.
func nameOf(c *x509.Certificate) (string, error) {
	name := c.Subject.CommonName
	if name == "" && len(c.DNSNames) == 1 {
		name = c.DNSNames[0]
	}
	if name == "" {
		return "", errors.New("the certificate has neither a common name nor a single DNS name")
	}
	if err := checkName(name); err != nil {
		return "", fmt.Errorf("the certificate: %w", err)
	}
	return name, nil
}

func unknown(err error) error {
	return &sdk.Error{Code: sdk.Unauthenticated, Op: "authenticate", ID: ErrUnknown, Err: err}
}

package azure

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Client is a service principal.
type Client struct {
	// Secret is its password; empty means that any will do.
	Secret string
	// Assertion is the federated token that it may show instead.
	Assertion string
	// Actions are what it may do, such as "Microsoft.ContainerInstance/*"; nil
	// allows everything.
	Actions []string
}

// IdentitySecret is what callers of the endpoint of managed identities show: no
// word that a program that keeps secrets out of its messages would miss.
const IdentitySecret = "pocket-identity-of-no-worth-7q4x" //nolint:gosec // it opens nothing

// IdentityPath is the endpoint of managed identities, for MSI_ENDPOINT and
// IDENTITY_ENDPOINT.
const IdentityPath = "/msi/token"

const (
	identityClient = "99999999-8888-7777-6666-555555555555"
	vaultResource  = "https://vault.azure.net"
	tokenLife      = time.Hour
)

// claims are what a token says. See
// https://learn.microsoft.com/en-us/entra/identity-platform/access-token-claims-reference
type claims struct {
	Audience string `json:"aud"`
	Issuer   string `json:"iss"`
	Issued   int64  `json:"iat"`
	From     int64  `json:"nbf"`
	Expires  int64  `json:"exp"`
	Client   string `json:"appid"`
	Object   string `json:"oid"`
	Subject  string `json:"sub"`
	Tenant   string `json:"tid"`
	Version  string `json:"ver"`
}

// AccessToken returns a token for a resource, such as
// "https://management.azure.com" or "https://vault.azure.net", that allows
// everything: a short way for tests.
func (s *Server) AccessToken(resource string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	token, _ := s.newToken(identityClient, resource)
	return token
}

// newToken signs a token. Only this server reads it, so the key is no pair. The
// lock is held.
func (s *Server) newToken(client, resource string) (token string, until time.Time) {
	now := s.o.Now()
	until = now.Add(cmp.Or(s.knobs.TokenLife, tokenLife))
	object := uuid(hex.EncodeToString(sum(client, "object")))
	body, err := json.Marshal(claims{Audience: resource, Issuer: "https://sts.windows.net/" + s.o.TenantID + "/", Issued: now.Unix(), From: now.Add(-5 * time.Minute).Unix(),
		Expires: until.Unix(), Client: client, Object: object, Subject: object, Tenant: s.o.TenantID, Version: "1.0"})
	if err != nil {
		panic("azure: write a token: " + err.Error()) // it has only strings and numbers
	}
	b64 := base64.RawURLEncoding.EncodeToString
	text := b64([]byte(`{"typ":"JWT","alg":"HS256"}`)) + "." + b64(body)
	return text + "." + b64(s.sign(text)), until
}

// sign is the same in each server of a tenant: callers keep a token for an hour, and
// one that is started again in the meantime, without any state, has to know it. Who
// could make a token by this would be given one, too.
func (s *Server) sign(text string) []byte {
	mac := hmac.New(sha256.New, sum(s.o.TenantID, "tokens"))
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// openToken reads a token that this server signed.
func (s *Server) openToken(token string) (claims, bool) {
	text, signature, ok := cutLast(token, ".")
	given, err := base64.RawURLEncoding.DecodeString(signature)
	if !ok || err != nil || !hmac.Equal(given, s.sign(text)) {
		return claims{}, false
	}
	_, body, _ := strings.Cut(text, ".")
	data, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil {
		return claims{}, false
	}
	var c claims
	return c, json.Unmarshal(data, &c) == nil
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// tokenReply is https://learn.microsoft.com/en-us/entra/identity-platform/v2-oauth2-client-creds-grant-flow
type tokenReply struct {
	Type         string `json:"token_type"`
	ExpiresIn    any    `json:"expires_in"`
	ExtExpiresIn any    `json:"ext_expires_in,omitempty"`
	ExpiresOn    string `json:"expires_on,omitempty"`
	NotBefore    string `json:"not_before,omitempty"`
	Resource     string `json:"resource,omitempty"`
	ClientID     string `json:"client_id,omitempty"`
	Token        string `json:"access_token"`
}

// issueToken gives a service principal a token, by version 2 of the endpoint
// (a scope) or by version 1 (a resource).
func (s *Server) issueToken(c *call) (result, *Error) {
	if t := c.path["tenant"]; !strings.EqualFold(t, s.o.TenantID) {
		return result{}, refuse(ruleTenant, "AADSTS90002: Tenant '%s' not found. Check to make sure you have the correct tenant ID and are signing into the correct cloud.", t)
	}
	form, err := url.ParseQuery(string(c.body))
	if err != nil {
		return result{}, refuse(ruleGrant, "AADSTS900144: The request body is malformed: %v.", err)
	}
	if g := form.Get("grant_type"); g != "client_credentials" {
		return result{}, refuse(ruleGrant, "AADSTS70003: The app requested an unsupported grant type '%s'.", g)
	}
	resource, ok := strings.CutSuffix(withoutOpenID(form.Get("scope")), "/.default")
	if c.route.action == actionTokenV1 {
		resource = form.Get("resource")
		ok = resource != ""
	}
	if !ok {
		return result{}, refuse(ruleScope, "AADSTS1002012: The provided value for scope %s is not valid. Client credential flows must have a scope value with /.default suffixed to the resource identifier (application ID URI).", form.Get("scope"))
	}
	if !s.knows(c, resource) {
		return result{}, refuse(ruleResource, "AADSTS500011: The resource principal named %s was not found in the tenant named %s.", resource, s.o.TenantID)
	}
	id := form.Get("client_id")
	client, known := s.o.Clients[id]
	if id == "" || s.o.Clients != nil && !known {
		return result{}, refuse(ruleClient, "AADSTS700016: Application with identifier '%s' was not found in the directory '%s'.", id, s.o.TenantID)
	}
	secret, assertion := form.Get("client_secret"), form.Get("client_assertion")
	switch {
	case assertion != "" && (s.o.Clients == nil || client.Assertion == assertion):
	case assertion != "":
		return result{}, refuse(ruleSecret, "AADSTS700213: No matching federated identity record found for presented assertion.")
	case secret == "" || client.Secret != "" && client.Secret != secret:
		return result{}, refuse(ruleSecret, "AADSTS7000215: Invalid client secret provided. Ensure the secret being sent in the request is the client secret value, not the client secret ID, for a secret added to app '%s'.", id)
	}
	token, until := s.newToken(id, resource)
	left := int(until.Sub(s.o.Now()).Round(time.Second) / time.Second)
	out := tokenReply{Type: "Bearer", ExpiresIn: left, ExtExpiresIn: left, Token: token}
	if c.route.action == actionTokenV1 {
		out.ExpiresIn, out.ExtExpiresIn, out.ExpiresOn, out.Resource = strconv.Itoa(left), strconv.Itoa(left), strconv.FormatInt(until.Unix(), 10), resource
	}
	return result{http.StatusOK, out}, nil
}

// withoutOpenID leaves out the scopes that Microsoft's own library adds to every
// request, which mean nothing for a service principal. See
// https://learn.microsoft.com/en-us/entra/identity-platform/scopes-oidc#openid-connect-scopes
func withoutOpenID(scope string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(scope), func(s string) bool {
		return s == "openid" || s == "offline_access" || s == "profile"
	}), " ")
}

// identityToken gives the machine's managed identity a token, as App Service
// and the metadata service of virtual machines do. See
// https://learn.microsoft.com/en-us/azure/app-service/overview-managed-identity
func (s *Server) identityToken(c *call) (result, *Error) {
	h := c.request.Header
	if h.Get("Metadata") != "true" && h.Get("Secret") != IdentitySecret && h.Get("X-Identity-Header") != IdentitySecret {
		return result{}, refuse(ruleIdentity, "Required identity header is missing or wrong.")
	}
	query := c.request.URL.Query()
	if c.request.Method == http.MethodPost {
		form, err := url.ParseQuery(string(c.body))
		if err != nil {
			return result{}, refuse(ruleGrant, "The request body is malformed: %v.", err)
		}
		query = form
	}
	resource := query.Get("resource")
	if !s.knows(c, resource) {
		return result{}, refuse(ruleResource, "AADSTS500011: The resource principal named %s was not found in the tenant named %s.", resource, s.o.TenantID)
	}
	token, until := s.newToken(identityClient, resource)
	out := tokenReply{Type: "Bearer", ExpiresIn: strconv.Itoa(int(until.Sub(s.o.Now()).Round(time.Second) / time.Second)), ExpiresOn: strconv.FormatInt(until.Unix(), 10),
		NotBefore: strconv.FormatInt(s.o.Now().Add(-5*time.Minute).Unix(), 10), Resource: resource, ClientID: identityClient, Token: token}
	if query.Get("api-version") == "2017-09-01" { // this version alone writes a date
		out.ExpiresOn = until.UTC().Format("01/02/2006 15:04:05 +00:00")
	}
	return result{http.StatusOK, out}, nil
}

// knows says whether there are tokens for a resource.
func (s *Server) knows(c *call, resource string) bool {
	return resource == clusterApp || slices.ContainsFunc([]plane{planeARM, planeVault}, func(p plane) bool { return slices.Contains(s.audiences(c, p), trimSlash(resource)) }) || isStore(resource)
}

// audiences are the resources whose tokens an API takes.
func (s *Server) audiences(c *call, p plane) []string {
	if p == planeVault {
		return []string{vaultResource}
	}
	return []string{"https://management.azure.com", "https://management.core.windows.net", c.base()}
}

// configResource stands for every store of App Configuration; each takes tokens for
// itself, too. See
// https://learn.microsoft.com/en-us/azure/azure-app-configuration/rest-api-authentication-azure-ad
const configResource = "https://appconfig.azure.com"

// isStore reports whether there are tokens for a resource as one of App
// Configuration's.
func isStore(resource string) bool {
	u, err := url.Parse(resource)
	if err != nil || u.Scheme != "https" {
		return false
	}
	_, rest, ok := strings.Cut(u.Hostname(), ".")
	return trimSlash(resource) == configResource || resource == "https://azconfig.io" || ok && (rest == "azconfig.localhost" || rest == "azconfig.io")
}

func trimSlash(s string) string { return strings.TrimRight(s, "/") }

// discovery says that this host is an authority, as MSAL asks before it trusts
// one. See https://learn.microsoft.com/en-us/entra/msal/dotnet/advanced/instance-discovery
func (s *Server) discovery(c *call) (result, *Error) {
	host := c.request.Host
	return result{http.StatusOK, map[string]any{
		"tenant_discovery_endpoint": c.base() + "/" + s.o.TenantID + "/v2.0/.well-known/openid-configuration",
		"api-version":               "1.1",
		"metadata":                  []any{map[string]any{"preferred_network": host, "preferred_cache": host, "aliases": []string{host}}},
	}}, nil
}

// openID describes the authority: https://openid.net/specs/openid-connect-discovery-1_0.html
func (s *Server) openID(c *call) (result, *Error) {
	at := c.base() + "/" + s.o.TenantID
	return result{http.StatusOK, map[string]any{
		"token_endpoint":                        at + "/oauth2/v2.0/token",
		"authorization_endpoint":                at + "/oauth2/v2.0/authorize",
		"device_authorization_endpoint":         at + "/oauth2/v2.0/devicecode",
		"jwks_uri":                              at + "/discovery/v2.0/keys",
		"issuer":                                at + "/v2.0",
		"token_endpoint_auth_methods_supported": []string{"client_secret_post", "private_key_jwt"},
		"response_types_supported":              []string{"code", "id_token"},
		"subject_types_supported":               []string{"pairwise"},
		"id_token_signing_alg_values_supported": []string{"RS256"},
		"scopes_supported":                      []string{"openid"},
		"tenant_region_scope":                   nil,
	}}, nil
}

// authenticate finds out who calls an API.
func (s *Server) authenticate(c *call) *Error {
	p := c.route.plane
	authority := c.base() + "/" + s.o.TenantID
	challenge := `Bearer authorization_uri="` + authority + `", error="invalid_token"`
	if p == planeVault {
		challenge = `Bearer authorization="` + authority + `", resource="` + vaultResource + `"`
	}
	deny := func(rule, format string, args ...any) *Error {
		c.header.Set("WWW-Authenticate", challenge)
		e := refuse(rule, format, args...)
		if p == planeVault { // Key Vault has one code for all of them
			e.Code = "Unauthorized"
		}
		return e
	}
	token, ok := strings.CutPrefix(c.request.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" {
		if p == planeVault {
			return deny(ruleVaultToken, "AKV10000: Request is missing a Bearer or PoP token.")
		}
		return deny(ruleNoToken, "Authentication failed. The 'Authorization' header is missing.")
	}
	who, ok := s.openToken(token)
	now := s.o.Now()
	switch {
	case !ok || now.Before(time.Unix(who.From, 0)):
		return deny(ruleToken, "The access token is invalid.")
	case who.Tenant != s.o.TenantID:
		return deny(ruleToken, "The access token is from the wrong issuer.")
	case !now.Before(time.Unix(who.Expires, 0)):
		return deny(ruleTokenExpired, "The access token expiry UTC time '%s' is earlier than current UTC time '%s'.", time.Unix(who.Expires, 0).UTC().Format(time.DateTime), now.UTC().Format(time.DateTime))
	case p == planeConfig && !isStore(who.Audience), p != planeConfig && !slices.Contains(s.audiences(c, p), trimSlash(who.Audience)):
		return deny(ruleTokenAudience, "The access token has been obtained for wrong audience or resource '%s'. It should exactly match with one of the allowed audiences '%s'.", who.Audience, strings.Join(s.audiences(c, p), "','"))
	}
	c.who = who
	return nil
}

// sum makes 16 bytes that stand for a text in a role.
func sum(text, role string) []byte {
	h := sha256.Sum256([]byte(role + "\x00" + text))
	return h[:16]
}

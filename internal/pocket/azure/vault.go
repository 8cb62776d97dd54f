package azure

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/security/keyvault/azsecrets"
)

// vault is a key vault's secrets. Every legal name is one's: the real ones are
// found by DNS.
type vault struct {
	Secrets map[string]*secret // by name, without case
	Deleted map[string]*secret
}

// secret is a secret with its versions by age.
type secret struct {
	Name     string
	Versions []*secretVersion
	Removed  time.Time
}

type secretVersion struct {
	ID    string // 32 hexadecimal digits
	Value string
	// Body has everything but the ID, which has the vault's address in it.
	Body *azsecrets.Secret
}

// The documented limits of secrets:
// https://learn.microsoft.com/en-us/azure/key-vault/general/about-keys-secrets-certificates
const (
	maxSecret     = 25 << 10
	maxVaultPage  = 25
	recoverable   = "Recoverable+Purgeable"
	recoverDays   = 90
	maxSecretTags = 15
)

var (
	secretForm  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-zA-Z-]{1,127}$`) })
	versionForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-fA-F]{32}$`) })
	vaultForm   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z][0-9a-zA-Z-]{1,22}[0-9a-zA-Z]$`) })
)

// VaultURL is the address of a vault of the cloud at an address like
// https://127.0.0.1:1234. The vault named Vault is at the address itself, too,
// for clients that take no path.
func VaultURL(base, name string) string { return trimSlash(base) + "/" + vaultPath + "/" + name }

// PutSecret adds a version to a secret, which is made if it isn't there: a short
// way for tests. It returns the version.
func (s *Server) PutSecret(vault, name, value string) (version string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, e := s.put(vault, name, azsecrets.SetSecretParameters{Value: &value}, s.o.Now())
	if e != nil {
		return "", fmt.Errorf("put secret %s/%s: %s: %s", vault, name, e.Code, e.Message)
	}
	return v.ID, nil
}

// openVault finds a vault.
func (s *Server) openVault(name string) (*vault, *Error) {
	if !vaultForm().MatchString(name) {
		return nil, refuse(ruleVaultName, "The vault name '%s' is invalid. It has 3 to 24 letters, digits and dashes.", name)
	}
	name = strings.ToLower(name)
	if s.vaults[name] == nil {
		s.vaults[name] = &vault{Secrets: map[string]*secret{}, Deleted: map[string]*secret{}}
	}
	return s.vaults[name], nil
}

// put adds a version. The lock is held.
func (s *Server) put(vaultName, name string, in azsecrets.SetSecretParameters, now time.Time) (*secretVersion, *Error) {
	v, e := s.openVault(vaultName)
	if e != nil {
		return nil, e
	}
	if !secretForm().MatchString(name) {
		return nil, refuse(ruleSecretName, "The request URI contains an invalid name: %s", name)
	}
	if in.Value == nil {
		return nil, refuse(ruleSecretValue, "The parameter value is not specified: 'value'.")
	}
	if len(*in.Value) > maxSecret {
		return nil, refuse(ruleSecretSize, "Property value has invalid value: the secret has %d bytes, the maximum size is %d.", len(*in.Value), maxSecret)
	}
	if e := checkSecretTags(in.Tags); e != nil {
		return nil, e
	}
	key := strings.ToLower(name)
	if v.Deleted[key] != nil {
		e := refuse(ruleSecretDeleted, "Secret %s is currently in a deleted but recoverable state, and its name cannot be reused; in this state, the secret can only be recovered or purged.", name)
		e.Inner = "ObjectIsDeletedButRecoverable"
		return nil, e
	}
	own := v.Secrets[key]
	if own == nil {
		own = &secret{Name: name}
		v.Secrets[key] = own
	}
	now = now.UTC().Truncate(time.Second)
	attributes := in.SecretAttributes
	if attributes == nil {
		attributes = &azsecrets.SecretAttributes{}
	}
	attributes.Enabled = cmp.Or(attributes.Enabled, to.Ptr(true))
	attributes.Created, attributes.Updated, attributes.RecoveryLevel, attributes.RecoverableDays = &now, &now, to.Ptr(recoverable), to.Ptr[int32](recoverDays)
	made := &secretVersion{ID: s.o.NewID(), Value: *in.Value, Body: &azsecrets.Secret{Attributes: attributes, ContentType: in.ContentType, Tags: in.Tags}}
	own.Versions = append(own.Versions, made)
	return made, nil
}

func checkSecretTags(tags map[string]*string) *Error {
	if len(tags) > maxSecretTags {
		return refuse(ruleSecretTags, "Too many tags: %d. A secret has up to %d.", len(tags), maxSecretTags)
	}
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		if len(name) > 256 || tags[name] != nil && len(*tags[name]) > 256 {
			return refuse(ruleSecretTags, "A tag's name and value have up to 256 characters.")
		}
	}
	return nil
}

// secretURL is a secret's identifier. Clients take it apart, and know no path
// before the collection: a vault that was found by its path is shown by its
// host's name.
func (s *Server) secretURL(c *call, collection, name, version string) *azsecrets.ID {
	at := c.base()
	if strings.HasPrefix(c.request.URL.Path, "/"+vaultPath+"/") {
		_, port, _ := strings.Cut(c.request.Host, ":")
		at = strings.Replace(at, c.request.Host, strings.ToLower(c.path["vault"])+".vault.localhost:"+port, 1)
	}
	id := at + "/" + collection + "/" + name
	if version != "" {
		id += "/" + version
	}
	return to.Ptr(azsecrets.ID(id))
}

func (s *Server) setSecret(c *call) (result, *Error) {
	var in azsecrets.SetSecretParameters
	if e := read(c.body, s.shapes.setSecret, &in); e != nil {
		return result{}, e
	}
	v, e := s.put(c.path["vault"], c.path["secret"], in, c.now)
	if e != nil {
		return result{}, e
	}
	return result{http.StatusOK, s.bundle(c, v, c.path["secret"], true)}, nil
}

// bundle shows a version.
func (s *Server) bundle(c *call, v *secretVersion, name string, value bool) *azsecrets.Secret {
	out := clone(v.Body)
	out.ID = s.secretURL(c, "secrets", name, v.ID)
	if value {
		out.Value = &v.Value
	}
	return out
}

// findVersion finds the version that a call is for: the last one unless it is
// named.
func (s *Server) findVersion(c *call) (*secret, *secretVersion, *Error) {
	v, e := s.openVault(c.path["vault"])
	if e != nil {
		return nil, nil, e
	}
	name, version := c.path["secret"], c.path["version"]
	if !secretForm().MatchString(name) {
		return nil, nil, refuse(ruleSecretName, "The request URI contains an invalid name: %s", name)
	}
	if version != "" && !versionForm().MatchString(version) {
		return nil, nil, refuse(ruleSecretVersion, "The request URI contains an invalid version: %s", version)
	}
	own := v.Secrets[strings.ToLower(name)]
	if own != nil && version == "" {
		return own, own.Versions[len(own.Versions)-1], nil
	}
	if own != nil {
		for _, one := range own.Versions {
			if strings.EqualFold(one.ID, version) {
				return own, one, nil
			}
		}
		name += "/" + version
	}
	return nil, nil, refuse(ruleSecretMissing, "A secret with (name/id) %s was not found in this key vault. If you recently deleted this secret you may be able to recover it using the correct recovery command. For help resolving this issue, please see https://go.microsoft.com/fwlink/?linkid=2125182", name)
}

// getSecret reads a secret. One that isn't valid yet, or not any more, can be
// read all the same. See
// https://learn.microsoft.com/en-us/azure/key-vault/secrets/about-secrets
func (s *Server) getSecret(c *call) (result, *Error) {
	own, v, e := s.findVersion(c)
	if e != nil {
		return result{}, e
	}
	if !*v.Body.Attributes.Enabled {
		e := refuse(ruleSecretDisabled, "Operation get is not allowed on a disabled secret.")
		e.Inner = "SecretDisabled"
		return result{}, e
	}
	return result{http.StatusOK, s.bundle(c, v, own.Name, true)}, nil
}

func (s *Server) updateSecret(c *call) (result, *Error) {
	var in azsecrets.UpdateSecretPropertiesParameters
	if e := read(c.body, s.shapes.updateSecret, &in); e != nil {
		return result{}, e
	}
	own, v, e := s.findVersion(c)
	if e != nil {
		return result{}, e
	}
	if e := checkSecretTags(in.Tags); e != nil {
		return result{}, e
	}
	b := v.Body
	b.ContentType = cmp.Or(in.ContentType, b.ContentType)
	if in.Tags != nil {
		b.Tags = in.Tags
	}
	if a := in.SecretAttributes; a != nil {
		b.Attributes.Enabled, b.Attributes.Expires, b.Attributes.NotBefore = cmp.Or(a.Enabled, b.Attributes.Enabled), cmp.Or(a.Expires, b.Attributes.Expires), cmp.Or(a.NotBefore, b.Attributes.NotBefore)
	}
	b.Attributes.Updated = to.Ptr(c.now.Truncate(time.Second))
	return result{http.StatusOK, s.bundle(c, v, own.Name, false)}, nil
}

func (s *Server) getSecrets(c *call) (result, *Error) {
	v, e := s.openVault(c.path["vault"])
	if e != nil {
		return result{}, e
	}
	var list []*azsecrets.SecretProperties
	for _, key := range slices.Sorted(maps.Keys(v.Secrets)) {
		own := v.Secrets[key]
		list = append(list, s.properties(c, own.Versions[len(own.Versions)-1], own.Name, false))
	}
	return s.secretPage(c, list)
}

func (s *Server) getSecretVersions(c *call) (result, *Error) {
	v, e := s.openVault(c.path["vault"])
	if e != nil {
		return result{}, e
	}
	var list []*azsecrets.SecretProperties
	if own := v.Secrets[strings.ToLower(c.path["secret"])]; own != nil {
		for _, one := range own.Versions {
			list = append(list, s.properties(c, one, own.Name, true))
		}
	}
	slices.SortFunc(list, func(a, b *azsecrets.SecretProperties) int { return cmp.Compare(*a.ID, *b.ID) })
	return s.secretPage(c, list)
}

// properties shows a secret in a list.
func (s *Server) properties(c *call, v *secretVersion, name string, versioned bool) *azsecrets.SecretProperties {
	b := clone(v.Body)
	id := v.ID
	if !versioned {
		id = ""
	}
	return &azsecrets.SecretProperties{Attributes: b.Attributes, ContentType: b.ContentType, Tags: b.Tags, ID: s.secretURL(c, "secrets", name, id)}
}

// secretPage cuts a page out of a list. See
// https://learn.microsoft.com/en-us/rest/api/keyvault/secrets/get-secrets/get-secrets
func (s *Server) secretPage(c *call, list []*azsecrets.SecretProperties) (result, *Error) {
	size := maxVaultPage
	if text := c.request.URL.Query().Get("maxresults"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxVaultPage {
			return result{}, refuse(ruleMaxResults, "The value of maxresults is invalid: '%s'. It lies between 1 and %d.", text, maxVaultPage)
		}
		size = n
	}
	if s.knobs.PageSize > 0 {
		size = min(size, s.knobs.PageSize)
	}
	page, next, e := paged(c, list, func(p *azsecrets.SecretProperties) string { return string(*p.ID) }, size)
	if e != nil {
		return result{}, e
	}
	out := azsecrets.SecretPropertiesListResult{Value: append([]*azsecrets.SecretProperties{}, page...)}
	if next != "" {
		out.NextLink = &next
	}
	return result{http.StatusOK, out}, nil
}

// deleteSecret makes a secret recoverable: its name stays taken.
func (s *Server) deleteSecret(c *call) (result, *Error) {
	own, last, e := s.findVersion(c)
	if e != nil {
		return result{}, e
	}
	v, key := s.vaults[strings.ToLower(c.path["vault"])], strings.ToLower(own.Name)
	delete(v.Secrets, key)
	own.Removed = c.now.Truncate(time.Second)
	v.Deleted[key] = own
	return result{http.StatusOK, s.deleted(c, own, last)}, nil
}

func (s *Server) deleted(c *call, own *secret, last *secretVersion) *azsecrets.DeletedSecret {
	b := clone(last.Body)
	return &azsecrets.DeletedSecret{Attributes: b.Attributes, ContentType: b.ContentType, Tags: b.Tags, ID: s.secretURL(c, "secrets", own.Name, last.ID),
		RecoveryID: (*string)(s.secretURL(c, "deletedsecrets", own.Name, "")), DeletedDate: &own.Removed, ScheduledPurgeDate: to.Ptr(own.Removed.AddDate(0, 0, recoverDays))}
}

func (s *Server) findDeleted(c *call) (*vault, *secret, *Error) {
	v, e := s.openVault(c.path["vault"])
	if e != nil {
		return nil, nil, e
	}
	own := v.Deleted[strings.ToLower(c.path["secret"])]
	if own == nil {
		return nil, nil, refuse(ruleSecretMissing, "Deleted Secret not found: %s", c.path["secret"])
	}
	return v, own, nil
}

func (s *Server) getDeletedSecret(c *call) (result, *Error) {
	_, own, e := s.findDeleted(c)
	if e != nil {
		return result{}, e
	}
	return result{http.StatusOK, s.deleted(c, own, own.Versions[len(own.Versions)-1])}, nil
}

func (s *Server) purgeSecret(c *call) (result, *Error) {
	v, own, e := s.findDeleted(c)
	if e != nil {
		return result{}, e
	}
	delete(v.Deleted, strings.ToLower(own.Name))
	return result{status: http.StatusNoContent}, nil
}

package digitalocean

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"strings"
)

// An encrypted value reads EV[1:NONCE:TEXT], both in base64, as in the examples
// of https://docs.digitalocean.com/products/app-platform/how-to/manage-jobs/ The
// real cipher isn't known, nor needed: only the cloud opens it.
const (
	sealedPrefix = "EV["
	nonceBytes   = 24
)

// vault seals the secrets of an account.
type vault struct{ aead cipher.AEAD }

func newKey() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	return key
}

func newVault(key []byte) (*vault, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithNonceSize(block, nonceBytes)
	if err != nil {
		return nil, err
	}
	return &vault{aead}, nil
}

func (v *vault) seal(plain string) string {
	nonce := make([]byte, nonceBytes)
	_, _ = rand.Read(nonce)
	b64 := base64.StdEncoding.EncodeToString
	return sealedPrefix + "1:" + b64(nonce) + ":" + b64(v.aead.Seal(nil, nonce, []byte(plain), nil)) + "]"
}

func isSealed(value string) bool { return strings.HasPrefix(value, sealedPrefix) }

var errSealed = errors.New("the encrypted value is not of this account")

// open returns the value that was sealed. One that isn't sealed is itself.
func (v *vault) open(value string) (string, error) {
	if !isSealed(value) {
		return value, nil
	}
	parts := strings.Split(strings.TrimSuffix(strings.TrimPrefix(value, sealedPrefix), "]"), ":")
	if len(parts) != 3 || parts[0] != "1" || !strings.HasSuffix(value, "]") {
		return "", errSealed
	}
	nonce, err1 := base64.StdEncoding.DecodeString(parts[1])
	text, err2 := base64.StdEncoding.DecodeString(parts[2])
	if errors.Join(err1, err2) != nil || len(nonce) != nonceBytes {
		return "", errSealed
	}
	plain, err := v.aead.Open(nil, nonce, text, nil)
	if err != nil {
		return "", errSealed
	}
	return string(plain), nil
}

// sealField seals a value on its first submission, and takes one that was sealed
// before. An empty one stays so.
func (s *Server) sealField(path, value string) (string, *Error) {
	if value == "" {
		return "", nil
	}
	if isSealed(value) {
		if _, err := s.vault.open(value); err != nil {
			return "", invalid(ruleSealed, path, "%v", err)
		}
		return value, nil
	}
	return s.vault.seal(value), nil
}

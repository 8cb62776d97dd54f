package azure

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// CAFile is the certificate of the server's authority in the folder of
// Options.State.
const CAFile = "pocket-azure-ca.pem"

// certLife is how long certificates hold, from a day ago: a client's clock may
// be off.
const certLife = 5 * 365 * 24 * time.Hour

// identity is what the server shows to clients.
type identity struct {
	leaf tls.Certificate
	ca   []byte // PEM
	// caKey signs new leaves after a restart.
	caKey []byte // DER
}

// newIdentity makes a certificate by the authority that an earlier server left,
// or by a new one. Who trusts the authority trusts it for loopback only.
func (s *Server) newIdentity() (*identity, error) {
	id := &identity{}
	if s.identity != nil { // load has read it
		id = s.identity
	}
	from, until := time.Now().Add(-24*time.Hour), time.Now().Add(certLife)
	var ca *x509.Certificate
	var caKey *ecdsa.PrivateKey
	var err error
	if id.ca == nil {
		if caKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return nil, err
		}
		ca = &x509.Certificate{
			SerialNumber: serial(), Subject: pkix.Name{CommonName: "Windlass pocket Azure"}, NotBefore: from, NotAfter: until,
			IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, MaxPathLenZero: true,
			PermittedDNSDomainsCritical: true, PermittedDNSDomains: []string{"localhost"},
			PermittedIPRanges: []*net.IPNet{{IP: net.IPv4(127, 0, 0, 0).To4(), Mask: net.CIDRMask(8, 32)}, {IP: net.IPv6loopback, Mask: net.CIDRMask(128, 128)}},
		}
		der, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
		if err != nil {
			return nil, err
		}
		id.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
		if id.caKey, err = x509.MarshalECPrivateKey(caKey); err != nil {
			return nil, err
		}
	}
	block, _ := pem.Decode(id.ca)
	if block == nil {
		return nil, errors.New("the authority's certificate is no PEM")
	}
	if ca, err = x509.ParseCertificate(block.Bytes); err != nil {
		return nil, err
	}
	if caKey, err = x509.ParseECPrivateKey(id.caKey); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	leaf := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "localhost"}, NotBefore: from, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost", "*.vault.localhost", "*.azconfig.localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	if err != nil {
		return nil, err
	}
	id.leaf = tls.Certificate{Certificate: [][]byte{der, block.Bytes}, PrivateKey: key}
	if s.o.State == "" {
		return id, nil
	}
	if err := os.MkdirAll(s.o.State, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(s.o.State, CAFile)
	if old, err := os.ReadFile(file); err == nil && string(old) == string(id.ca) {
		return id, nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return id, os.WriteFile(file, id.ca, 0o600)
}

func serial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic("azure: no random numbers: " + err.Error()) // it never fails
	}
	return n.Add(n, big.NewInt(1))
}

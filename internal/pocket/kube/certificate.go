package kube

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Certificate is the server's, on this machine's loopback, and the PEM of the
// authority that signed it, which is itself. Both follow from the token, so that a
// server that is started anew with the same token is known to those who have a
// kubeconfig: who has the token may do all there anyway.
func (a Access) Certificate() (tls.Certificate, []byte, error) {
	seed := sha256.Sum256([]byte("windlass pocket cluster\n" + a.Token))
	key := ed25519.NewKeyFromSeed(seed[:])
	serial := sha256.Sum256(key.Public().(ed25519.PublicKey))
	template := &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial[:16]),
		Subject:      pkix.Name{CommonName: "windlass pocket cluster"},
		NotBefore:    time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC),
		// There is no date after which it isn't good.
		// https://www.rfc-editor.org/rfc/rfc5280#section-4.1.2.5
		NotAfter:              time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	// Signatures of Ed25519 need no randomness.
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("make a certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

package runner

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/windlass-run/windlass/sdk"
)

// readPool reads a file of CA certificates.
func readPool(path string) (*x509.CertPool, error) {
	pem, err := readFile(path)
	if err != nil {
		return nil, tlsError(fmt.Errorf("%s can't be read: %w", path, err))
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, tlsError(fmt.Errorf("%s has no certificate", path))
	}
	return pool, nil
}

// readPair reads a certificate and its key.
func readPair(cert, key string) (tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err == nil {
		return pair, nil
	}
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pair, tlsError(fmt.Errorf("%s can't be read: %w", pe.Path, pe.Err))
	}
	return pair, tlsError(fmt.Errorf("%s and %s: %w", cert, key, err))
}

func tlsError(err error) error {
	return &sdk.Error{Code: sdk.InvalidArgument, Op: "set up TLS", ID: ErrTLS, Err: err, Remedy: "name PEM files that belong together"}
}

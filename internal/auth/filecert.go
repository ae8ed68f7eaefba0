package auth

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"os"
	"sync"
)

// FileCert is a TLS certificate in two PEM files that another program renews. It is safe for concurrent use.
type FileCert struct {
	certFile, keyFile string

	mu        sync.Mutex
	cert, key []byte // file contents that current was read from
	current   *tls.Certificate
}

// OpenFileCert reads the certificate and key. An error names the faulty file.
func OpenFileCert(certFile, keyFile string) (*FileCert, error) {
	f := &FileCert{certFile: certFile, keyFile: keyFile}
	if _, err := f.Reload(); err != nil {
		return nil, err
	}
	return f, nil
}

// Reload reads both files again, and later handshakes use the new certificate. If the files are invalid or do not
// match, as in the middle of a renewal, Reload returns an error and the certificate in use stays unchanged. changed
// reports whether the certificate or key differs from before.
func (f *FileCert) Reload() (changed bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	cert, err := readPEM("certificate", f.certFile)
	if err != nil {
		return false, err
	}
	key, err := readPEM("key", f.keyFile)
	if err != nil {
		return false, err
	}
	if bytes.Equal(cert, f.cert) && bytes.Equal(key, f.key) {
		return false, nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return false, fmt.Errorf("the TLS certificate %s cannot be used with the key %s: %w", f.certFile, f.keyFile, err)
	}
	f.cert, f.key, f.current = cert, key, &pair
	return true, nil
}

// TLS returns the configuration of a listener for browsers and API clients.
func (f *FileCert) TLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.certificate(), nil },
	}
}

// Validity returns the validity period of the served certificate.
func (f *FileCert) Validity() Validity {
	leaf := f.certificate().Leaf
	return Validity{Use: "browsers", File: f.certFile, From: leaf.NotBefore, Until: leaf.NotAfter}
}

func (f *FileCert) certificate() *tls.Certificate {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.current
}

func readPEM(what, path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the TLS %s: %w", what, err)
	}
	if block, _ := pem.Decode(text); block == nil {
		return nil, fmt.Errorf("the TLS %s %s is not a PEM file, which begins with \"-----BEGIN\"", what, path)
	}
	return text, nil
}

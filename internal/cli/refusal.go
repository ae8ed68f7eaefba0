package cli

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"quantix/internal/config"
)

// databaseError says in one line why the database cannot be reached. Other errors stay as they are.
func databaseError(err error) error {
	var connect *pgconn.ConnectError
	if !errors.As(err, &connect) {
		return err
	}
	var reasons []string // one for each address that was tried, some of them twice: with TLS and without
	for line := range strings.SplitSeq(errors.Unwrap(connect).Error(), "\n") {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(reasons, line) {
			reasons = append(reasons, line)
		}
	}
	return fmt.Errorf("the database cannot be reached: %s; check that PostgreSQL runs there, and --database-url", strings.Join(reasons, "; "))
}

// browserCertificates reads the certificate for browsers; none where none is set. An error names the file that is at fault.
func browserCertificates(files config.TLS) ([]tls.Certificate, error) {
	if files.Cert == "" {
		return nil, nil
	}
	cert, err := readPEM("certificate", files.Cert)
	if err != nil {
		return nil, err
	}
	key, err := readPEM("key", files.Key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("the TLS certificate %s cannot be used with the key %s: %w", files.Cert, files.Key, err)
	}
	return []tls.Certificate{pair}, nil
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

package bench

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"quantix/internal/auth"
	"quantix/internal/control"
	"quantix/internal/fleet"
)

// passes makes the hosts' client certificates, all over one key: hosts make theirs themselves.
type passes struct {
	authority *auth.Authority
	key       *ecdsa.PrivateKey
	request   string
}

func newPasses(b *testing.B, c *control.Control) passes {
	b.Helper()
	authority, err := c.Authority(b.Context(), fleet.SystemActor)
	if err != nil {
		b.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		b.Fatal(err)
	}
	return passes{authority, key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))}
}

func (p passes) of(b *testing.B, id fleet.HostID) tls.Certificate {
	b.Helper()
	text, err := p.authority.IssueHost(id, p.request)
	if err != nil {
		b.Fatal(err)
	}
	block, _ := pem.Decode([]byte(text))
	return tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: p.key}
}

// serveMutually serves handler as a portal serves its agents, until the process or its listener ends.
func serveMutually(line net.Listener, authority *auth.Authority, handler http.Handler) error {
	conf, err := authority.ServerTLS([]string{"127.0.0.1"})
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	go server.Serve(tls.NewListener(line, conf))
	return nil
}

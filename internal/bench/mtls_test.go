package bench

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"

	"quantix/internal/agentconn"
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

// hostKey is the same in each process of a benchmark: a session belongs to the key that it was opened with.
var hostKey = sync.OnceValue(func() *ecdsa.PrivateKey {
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), bytes.Repeat([]byte{1}, 32))
	if err != nil {
		panic(err)
	}
	return key
})

// hostKeyInfo is hostKey's public half as certificates hold it.
var hostKeyInfo = sync.OnceValue(func() []byte {
	der, err := x509.MarshalPKIXPublicKey(hostKey().Public())
	if err != nil {
		panic(err)
	}
	return der
})

func newPasses(b *testing.B, c *control.Control) passes {
	b.Helper()
	authority, err := c.Authority(b.Context(), fleet.SystemActor)
	if err != nil {
		b.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, hostKey())
	if err != nil {
		b.Fatal(err)
	}
	return passes{authority, hostKey(), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))}
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
func serveMutually(listener net.Listener, authority *auth.Authority, handler http.Handler) error {
	conf, err := authority.ServerTLS([]string{"127.0.0.1"})
	if err != nil {
		return err
	}
	lines := agentconn.Listen(listener, conf)
	server := &http.Server{Handler: handler, ConnContext: lines.ConnContext, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	go server.Serve(lines)
	return nil
}

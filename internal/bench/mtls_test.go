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

// hostCerts issues the hosts' client certificates. All certificates share one key; real hosts generate their own keys.
type hostCerts struct {
	authority *auth.Authority
	key       *ecdsa.PrivateKey
	request   string
}

// hostKey is the same in every process of a benchmark, because an agent's session is bound to the key that opened it.
var hostKey = sync.OnceValue(func() *ecdsa.PrivateKey {
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), bytes.Repeat([]byte{1}, 32))
	if err != nil {
		panic(err)
	}
	return key
})

// hostKeyInfo is the public key of hostKey, as certificates encode it.
var hostKeyInfo = sync.OnceValue(func() []byte {
	der, err := x509.MarshalPKIXPublicKey(hostKey().Public())
	if err != nil {
		panic(err)
	}
	return der
})

func newHostCerts(b *testing.B, c *control.Control) hostCerts {
	b.Helper()
	authority, err := c.Authority(b.Context(), fleet.SystemActor)
	if err != nil {
		b.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, hostKey())
	if err != nil {
		b.Fatal(err)
	}
	return hostCerts{authority, hostKey(), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))}
}

func (p hostCerts) certificateOf(b *testing.B, id fleet.HostID) tls.Certificate {
	b.Helper()
	text, err := p.authority.IssueHost(id, p.request)
	if err != nil {
		b.Fatal(err)
	}
	block, _ := pem.Decode([]byte(text))
	return tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: p.key}
}

// serveMTLS serves handler over mutual TLS, as a portal serves its agents, until the process or the listener ends.
func serveMTLS(listener net.Listener, authority *auth.Authority, handler http.Handler) error {
	conf, err := authority.ServerTLS([]string{"127.0.0.1"})
	if err != nil {
		return err
	}
	conns := agentconn.Listen(listener, conf)
	server := &http.Server{Handler: handler, ConnContext: conns.ConnContext, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	go server.Serve(conns)
	return nil
}

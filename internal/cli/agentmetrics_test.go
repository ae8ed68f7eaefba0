package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quantix/internal/config"
)

func writeTestFile(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// newTestCertificate returns the PEM files of a certificate for 127.0.0.1, and its pool.
func newTestCertificate(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "host"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, secret.Public(), secret)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return writeTestFile(t, "tls.crt", text), writeTestFile(t, "tls.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})), pool
}

func TestAgentMetricsRequireTokenOverTLS(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef"
	cert, key, pool := newTestCertificate(t)
	cfg := config.Agent{MetricsListen: "127.0.0.1:0", MetricsToken: writeTestFile(t, "token", []byte(token+"\n")), MetricsCert: cert, MetricsKey: key}
	log := slog.New(slog.DiscardHandler)
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the metrics") })
	address, err := serveMetrics(t.Context(), cfg, handler, log)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}, Timeout: 10 * time.Second}
	for header, want := range map[string]int{
		"": http.StatusUnauthorized, "Bearer": http.StatusUnauthorized, "Bearer 0123456789abcdeg": http.StatusUnauthorized, "Basic " + token: http.StatusUnauthorized,
		"Bearer " + token: http.StatusOK, "bearer " + token: http.StatusOK,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address.String()+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", header)
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != want || strings.Contains(string(text), "the metrics") != (want == http.StatusOK) {
			t.Errorf("%q: status %d, %q, %v", header, answer.StatusCode, text, err)
		}
	}
}

func TestShortTokenOfAgentMetricsIsRefused(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]config.Agent{
		"shorter":        {MetricsListen: "127.0.0.1:0", MetricsToken: writeTestFile(t, "token", []byte("short\n"))},
		"no such file":   {MetricsListen: "127.0.0.1:0", MetricsToken: filepath.Join(t.TempDir(), "token")},
		"no certificate": {MetricsListen: "127.0.0.1:0", MetricsCert: filepath.Join(t.TempDir(), "crt"), MetricsKey: filepath.Join(t.TempDir(), "key")},
	} {
		if _, err := serveMetrics(t.Context(), cfg, http.NotFoundHandler(), slog.Default()); err == nil || !strings.HasPrefix(err.Error(), "metrics") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

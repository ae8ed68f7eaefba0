package auth

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writePEMPair writes a certificate for name, and its key, to the two files. An empty path omits a file.
func writePEMPair(t *testing.T, name, certFile, keyFile string) {
	t.Helper()
	pair, err := newAuthority(t).IssueServer([]string{name})
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, keyFile: {Type: "PRIVATE KEY", Bytes: key}} {
		if file == "" {
			continue
		}
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRenewedCertificateServedOnceKeyMatches(t *testing.T) {
	t.Parallel()
	cert, key := filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
	writePEMPair(t, "first.example", cert, key)
	f, err := OpenFileCert(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	serves := func(name string) {
		t.Helper()
		got, err := f.TLS().GetCertificate(&tls.ClientHelloInfo{})
		if err != nil || got.Leaf.VerifyHostname(name) != nil {
			t.Errorf("serves %v, %v; want %s", got.Leaf.DNSNames, err, name)
		}
	}
	if changed, err := f.Reload(); changed || err != nil {
		t.Errorf("the same files: changed %v, %v", changed, err)
	}
	writePEMPair(t, "half.example", cert, "") // the key still belongs to the old certificate
	if changed, err := f.Reload(); changed || err == nil || !strings.Contains(err.Error(), cert) {
		t.Errorf("half a renewal: changed %v, %v", changed, err)
	}
	serves("first.example")
	writePEMPair(t, "second.example", cert, key)
	if changed, err := f.Reload(); !changed || err != nil {
		t.Errorf("a renewal: changed %v, %v", changed, err)
	}
	serves("second.example")
	if err := os.Remove(cert); err != nil {
		t.Fatal(err)
	}
	if changed, err := f.Reload(); changed || err == nil {
		t.Errorf("a missing file: changed %v, %v", changed, err)
	}
	serves("second.example")
}

func TestExpiringCertificateCausesWarning(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	now := time.Now()
	for _, x := range []struct {
		life, left time.Duration
		message    string
	}{
		{365 * day, 15 * day, ""},
		{365 * day, 13 * day, "ends on"},
		{6 * day, 2 * day, ""}, // renewed every second day
		{6 * day, day, "ends on"},
		{90 * day, -day, "has ended on"},
	} {
		v := Validity{Use: "browsers", File: "/etc/quantix/tls.crt", From: now.Add(x.left - x.life), Until: now.Add(x.left)}
		text := v.Warning(now)
		if (text != "") != (x.message != "") || !strings.Contains(text, x.message) {
			t.Errorf("%s left of %s: %q, want %q", x.left, x.life, text, x.message)
		}
		if text != "" && !strings.Contains(text, v.File) {
			t.Errorf("the warning does not name the file: %s", text)
		}
	}
}

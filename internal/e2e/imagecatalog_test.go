//go:build linux && ordeal

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/lab"
)

// startImageServer starts a TLS server at the address, which serves an image and a file with checksums. It writes the
// server's certificate to the file roots, and returns the server's URL.
func startImageServer(t *testing.T, address, image, roots string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.ParseIP(address)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o644); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/guest.qcow2":
			http.ServeFile(w, r, image)
		case "/SHA256SUMS":
			_, _ = w.Write([]byte(hex.EncodeToString(sum[:]) + "  guest.qcow2\n" + strings.Repeat("0", 64) + "  inside.qcow2\n" + strings.Repeat("0", 64) + "  wrong.qcow2\n"))
		case "/inside.qcow2":
			http.Redirect(w, r, "https://169.254.169.254/guest.qcow2", http.StatusFound)
		case "/wrong.qcow2":
			http.ServeFile(w, r, image)
		default:
			http.NotFound(w, r)
		}
	}))
	if err := s.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	if s.Listener, err = net.Listen("tcp", net.JoinHostPort(address, "0")); err != nil {
		t.Fatal(err)
	}
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

// TestImageCatalogPullCreatesUsableImage pulls an image of the catalog with one click on a real libvirt host. The pull
// must fail without a network, from a server that redirects into a private network, and if the content has the wrong
// checksum. Then it must succeed, and a VM must run from the image.
func TestImageCatalogPullCreatesUsableImage(t *testing.T) {
	t.Parallel()
	guest, err := lab.GuestImage(t.Context(), lab.CacheDir())
	if err != nil {
		t.Fatal(err)
	}
	r := newRigWithoutHost(t, uniqueName("puller"), 27)
	proxyURL, err := url.Parse(r.cutProxy)
	if err != nil {
		t.Fatal(err)
	}
	roots := filepath.Join(r.dir, "roots.pem")
	at := startImageServer(t, proxyURL.Hostname(), guest.Disk, roots)
	r.extra, r.env = []string{"--fetch-from", proxyURL.Hostname() + "/32"}, []string{"SSL_CERT_FILE=" + roots}
	r.joinHost()
	a := r.api()
	pool := requestJSON[fleet.PoolView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/pools", map[string]any{
		"name": "pulled", "hostIds": []string{string(a.hostByName(t, r.name).ID)}, "spec": map[string]any{"kind": "dir", "path": "/var/lib/libvirt/images/" + uniqueName("pulled")},
	})
	eventually(t, stepLimit, "the pool", func() (bool, string) {
		got, err := a.send(t.Context(), http.MethodGet, "/api/v1/pools/"+string(pool.ID), nil)
		return err == nil && strings.Contains(string(got.body), `"state":"active"`), string(got.body)
	})

	p := newTab(t, r.portal.url)
	p.open("/sign-in")
	p.enterCredentials("admin", r.portal.password)
	p.waitPath("/")
	p.open("/images")
	p.click(".head a", "Well-known images")
	p.waitPath("/images/well-known")
	const row = "#start-00000000-0000-7000-8000-000000440001"
	p.waitText(row, "Debian 12")
	p.waitText("#pull", "pulled")
	p.markDocument()
	pull := func(want string) {
		t.Helper()
		p.click(row+" button", "Pull")
		p.waitText(row, want)
	}
	replace := func(file string) {
		t.Helper()
		p.pickMenuItem(row+" details summary", "", "Edit or replace")
		p.waitText("#dialog", "Edit Debian 12")
		p.fillInput("#dialog #url", at+"/"+file)
		p.fillInput("#dialog #checksumUrl", at+"/SHA256SUMS")
		p.click("#dialog button.primary", "Save")
		p.waitText(row, file)
	}
	pull("The host cannot find cloud.debian.org")
	p.checkNotReloaded()
	replace("inside.qcow2")
	pull("is in a private or reserved network")
	replace("wrong.qcow2")
	pull("was deleted")
	replace("missing.qcow2")
	pull("has no SHA-256 or SHA-512 of missing.qcow2")
	replace("guest.qcow2")
	pull("Done")
	p.waitText(row, "pulled on "+r.name)
	p.capture("start-set")

	images := listFirstPage[fleet.ImageView](t, a, "/api/v1/images")
	if len(images) != 1 {
		t.Fatalf("%+v", images)
	}
	v := images[0]
	if n := v.Newest(); n == nil || len(v.Versions) != 1 || !n.Usable || v.OS.Name != "Debian" {
		t.Fatalf("%+v", v)
	}
	project := requestJSON[fleet.Project](t, a, http.StatusCreated, http.MethodPost, "/api/v1/projects", map[string]any{"name": uniqueName("pulled")})
	disk := map[string]any{"poolId": pool.ID, "imageId": v.ID, "overlay": true}
	vm := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": uniqueName("pulled"), "projectId": project.ID, "start": true, "spec": map[string]any{"cpus": 1, "memoryMiB": 256, "disks": []any{disk}},
	})
	a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseRunning)
}

//go:build linux && ordeal

package e2e

import (
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestPortalReloadsRenewedCertificate replaces the TLS certificate of a running portal, once with SIGHUP and once
// without. New connections must get the renewed certificate. SIGHUP must also renew the certificate of the agent
// listener. The portal must continue to run.
func TestPortalReloadsRenewedCertificate(t *testing.T) {
	t.Parallel()
	name := uniqueName("renewed")
	file := filepath.Join(root, name+".pem")
	renew := func() {
		text, _ := selfSigned(t, "127.0.0.1")
		writeFile(t, file+".new", text)
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	renew()
	listen, agentListen := freeAddress(t), freeAddress(t)
	trusting := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	p := &portal{t: t, dir: filepath.Join(root, name), url: "https://" + listen, agentURL: "https://" + agentListen, via: trusting, args: []string{
		"portal", "--listen", listen, "--agent-listen", agentListen, "--data-dir", filepath.Join(root, name), "--tls-cert", file, "--tls-key", file,
	}}
	t.Cleanup(p.stopPortal)
	p.start(name)
	served := func(address string) string {
		c, err := tls.Dial("tcp", strings.TrimPrefix(address, "https://"), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			return err.Error()
		}
		defer c.Close()
		return string(c.ConnectionState().PeerCertificates[0].Raw)
	}
	changes := func(what, address, from string) string {
		var now string
		eventually(t, stepLimit, what, func() (bool, string) {
			now = served(address)
			return now != from, lastLinesOfFile(p.log, 3)
		})
		return now
	}
	pages, agents := served(p.url), served(p.agentURL)
	renew()
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	pages = changes("the renewed certificate after SIGHUP", p.url, pages)
	changes("the agents' endpoint's certificate after SIGHUP", p.agentURL, agents)
	renew()
	changes("the renewed certificate without SIGHUP", p.url, pages)
	select {
	case <-p.gone:
		t.Fatalf("the portal ended: %v:\n%s", p.err, lastLinesOfFile(p.log, 20))
	default:
	}
	if log := lastLinesOfFile(p.log, 1000); !strings.Contains(log, "SIGHUP") {
		t.Errorf("the log does not mention SIGHUP:\n%s", log)
	}
}

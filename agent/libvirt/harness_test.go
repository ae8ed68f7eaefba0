//go:build linux

package libvirt_test

import (
	"bytes"
	"crypto/sha512"
	"crypto/x509"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/fetch"
	"quantix/agent/hypervisor/conformance"
	"quantix/agent/seed"
	"quantix/internal/fleet"
)

// seedContents returns the contents of the VM's seed files, each by file name.
func seedContents(t *testing.T, id fleet.VMID) []map[string]string {
	t.Helper()
	var out []map[string]string
	dir := filepath.Join(seed.DefaultDir, string(id))
	all, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range all {
		path := filepath.Join(dir, e.Name())
		info := must(os.Stat(path))
		if info.Mode() != 0o600 {
			t.Errorf("%s has the mode %v", path, info.Mode())
		}
		if strings.HasSuffix(path, ".ign") {
			out = append(out, map[string]string{"config.ign": string(must(os.ReadFile(path)))})
			continue
		}
		out = append(out, readDisc(t, path))
	}
	return out
}

func readDisc(t *testing.T, path string) map[string]string {
	t.Helper()
	from := must(file.OpenFromPath(path, true))
	defer from.Close()
	disc := must(iso9660.Read(from, 0, 0, 2048))
	out := map[string]string{}
	for _, e := range must(disc.ReadDir(".")) {
		out[e.Name()] = string(must(disc.ReadFile(e.Name())))
	}
	return out
}

func dropSeeds(t *testing.T, id fleet.VMID) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(seed.DefaultDir, string(id))); err != nil {
		t.Fatal(err)
	}
}

var seedEntryPattern = regexp.MustCompile(`(?s)<sysinfo type='fwcfg'>.*?</sysinfo>`)

// removeDefinedSeed removes the first-boot seed from the definition, as virsh edit does.
func removeDefinedSeed(t *testing.T, id string) {
	t.Helper()
	text := virsh(t, "dumpxml", id, "--inactive")
	after := seedEntryPattern.ReplaceAllString(text, "")
	if i := strings.Index(after, "ua-quantix-firstboot"); i >= 0 {
		from, to := strings.LastIndex(after[:i], "<disk "), strings.Index(after[i:], "</disk>")
		after = after[:from] + after[i+to+len("</disk>"):]
	}
	if after == text {
		t.Fatalf("the definition has no first boot:\n%s", text)
	}
	edited := filepath.Join(t.TempDir(), "edited.xml")
	if err := os.WriteFile(edited, []byte(after), 0o600); err != nil {
		t.Fatal(err)
	}
	virsh(t, "define", edited)
}

// unleasedAddress returns an address of the network that has no lease.
func unleasedAddress(t *testing.T, name string) string {
	t.Helper()
	_, rest, _ := strings.Cut(virsh(t, "net-dumpxml", name, "--inactive"), "<ip address='")
	gateway, _, _ := strings.Cut(rest, "'")
	return strings.TrimSuffix(gateway, ".1") + ".77"
}

func dnsmasqPID(t *testing.T, name string) int {
	t.Helper()
	text, err := os.ReadFile("/run/libvirt/network/" + name + ".pid")
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func killDnsmasq(t *testing.T, name string) {
	t.Helper()
	pid := dnsmasqPID(t, name)
	signalProcess(t, pid, syscall.SIGKILL)
	waitFor(t, "dnsmasq has ended", func() bool {
		line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		return err != nil || len(line) == 0
	})
}

// defineUnmanagedNetwork defines and starts a network as virsh does.
func defineUnmanagedNetwork(t *testing.T, name string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "network.xml")
	if err := os.WriteFile(file, []byte("<network><name>"+strings.ReplaceAll(name, "&", "&amp;")+"</name></network>"), 0o600); err != nil {
		t.Fatal(err)
	}
	virsh(t, "net-define", file)
	t.Cleanup(func() { virsh(t, "net-undefine", name) })
	virsh(t, "net-start", name)
	t.Cleanup(func() { virsh(t, "net-destroy", name) })
}

// defineUnmanagedPool defines and starts a pool as virsh does, without autostart.
func defineUnmanagedPool(t *testing.T, name, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	virsh(t, "pool-define-as", name, "dir", "--target", path)
	t.Cleanup(func() { virsh(t, "pool-undefine", name) })
	virsh(t, "pool-start", name)
	t.Cleanup(func() { virsh(t, "pool-destroy", name) })
}

// unusedVeth creates a veth pair and returns the name of one end. The other end is unused.
func unusedVeth(t *testing.T) string {
	t.Helper()
	id := string(fleet.NewID[fleet.NetworkID]())
	name := "qxd" + id[len(id)-8:]
	run(t, "ip", "link", "add", name, "type", "veth", "peer", "name", name+"p")
	t.Cleanup(func() { deleteNetworkLink(t, name) })
	run(t, "ip", "link", "set", name, "up")
	return name
}

func liveNetwork(t *testing.T, name string) libvirtxml.Network {
	t.Helper()
	var x libvirtxml.Network
	if err := x.Unmarshal(virsh(t, "net-dumpxml", name)); err != nil {
		t.Fatal(err)
	}
	return x
}

func reservations(t *testing.T, name string) (out []string) {
	t.Helper()
	for _, ip := range liveNetwork(t, name).IPs {
		if ip.DHCP != nil {
			for _, h := range ip.DHCP.Hosts {
				out = append(out, h.MAC+" "+h.IP)
			}
		}
	}
	return out
}

func dropReservations(t *testing.T, name string) {
	t.Helper()
	for _, h := range liveNetwork(t, name).IPs[0].DHCP.Hosts {
		virsh(t, "net-update", name, "delete", "ip-dhcp-host", "<host mac='"+h.MAC+"' ip='"+h.IP+"'/>", "--live")
	}
}

func portGroups(t *testing.T, name string) (out []string) {
	t.Helper()
	for _, g := range liveNetwork(t, name).PortGroups {
		out = append(out, g.Name)
	}
	return out
}

func runOutput(t *testing.T, command string, args ...string) string {
	t.Helper()
	out, err := exec.Command(command, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", command, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// testDownloader downloads from the servers of the tests, which share a TLS certificate.
var testDownloader = func() *fetch.Client {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return fetch.New(fetch.Settings{AllowedNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Roots: roots})
}()

// serveChecksums serves a file of checksums over TLS and returns the file's URL.
func serveChecksums(t *testing.T, text string) string {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }))
	t.Cleanup(s.Close)
	return s.URL + "/SHA512SUMS"
}

func sumOf(text []byte) string {
	sum := sha512.Sum512(text)
	return "sha512:" + hex.EncodeToString(sum[:])
}

// serveImage serves the content over HTTP and returns a download request. The request has the checksum that HTTP
// requires.
func serveImage(t *testing.T, text []byte) fleet.VolumeParams {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
	}))
	t.Cleanup(s.Close)
	return fleet.VolumeParams{URL: s.URL + "/image", Checksum: sumOf(text)}
}

// qemuImgCreate returns the image that qemu-img creates with the arguments. FILE in an argument is the path of the
// image.
func qemuImgCreate(t *testing.T, args ...string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	for i, a := range args {
		args[i] = strings.ReplaceAll(a, "FILE", path)
	}
	run(t, "qemu-img", append([]string{"create", "-q"}, args...)...)
	return must(os.ReadFile(path))
}

func remoteImage(t *testing.T, what conformance.RemoteFile) (url, checksum string) {
	t.Helper()
	var o fleet.VolumeParams
	switch what {
	case conformance.RemoteQcow2, conformance.RemoteWrongChecksum:
		o = serveImage(t, qemuImgCreate(t, "-f", "qcow2", "FILE", "4M"))
	case conformance.RemoteWithChecksumFile, conformance.RemoteChecksumMissing, conformance.RemoteFileMissing:
		o = serveImage(t, qemuImgCreate(t, "-f", "qcow2", "FILE", "4M"))
		digits := strings.TrimPrefix(o.Checksum, "sha512:")
		switch what {
		case conformance.RemoteWithChecksumFile:
			return o.URL, serveChecksums(t, digits+"  image\n")
		case conformance.RemoteChecksumMissing:
			return o.URL, serveChecksums(t, digits+"  other\n")
		}
		s := httptest.NewTLSServer(nil)
		s.Close()
		return o.URL, s.URL + "/SHA512SUMS"
	case conformance.RemoteISO:
		path := filepath.Join(t.TempDir(), "iso")
		writeDisc(t, path, 1<<20)
		o = serveImage(t, must(os.ReadFile(path)))
	case conformance.RemoteWebPage:
		o = serveImage(t, []byte("<!DOCTYPE html><title>Not found</title>"))
	case conformance.RemoteNoServer:
		s := httptest.NewServer(nil)
		s.Close()
		o = fleet.VolumeParams{URL: s.URL, Checksum: sumOf(nil)}
	case conformance.RemoteStalled:
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "10000000")
			_, _ = w.Write(make([]byte, 1<<20))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}))
		t.Cleanup(s.Close)
		o = fleet.VolumeParams{URL: s.URL, Checksum: sumOf(nil)}
	}
	if what == conformance.RemoteWrongChecksum {
		o.Checksum = sumOf(nil)
	}
	return o.URL, o.Checksum
}

func deleteNetworkLink(t *testing.T, name string) {
	t.Helper()
	if out, err := exec.Command("ip", "link", "delete", name).CombinedOutput(); err != nil {
		t.Errorf("delete %s: %v: %s", name, err, out)
	}
}

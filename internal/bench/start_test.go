//go:build linux

package bench

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"

	"quantix/internal/fleet"
	"quantix/internal/testkit/client"
	"quantix/internal/testkit/goals"
)

const startSamples = 7

// BenchmarkCreateAndStart measures the creation and start of a diskless guest on a real libvirt host, under emulation.
// The portal's time runs from the request to the end of the start. The peer is libvirt alone over one connection:
// define and create. Limit: the peer's time + 60 ms.
func BenchmarkCreateAndStart(b *testing.B) {
	url, token, uri, _ := startLab(b)
	api, err := client.New(url, token, nil)
	if err != nil {
		b.Fatal(err)
	}
	hosts, err := api.Hosts(b.Context(), fleet.Query{Filter: "name:host-1"})
	if err != nil || len(hosts.Items) != 1 {
		b.Fatalf("hosts: %v, %v", hosts, err)
	}
	projects, err := api.Projects(b.Context(), fleet.Query{})
	if err != nil || len(projects.Items) == 0 {
		b.Fatalf("projects: %v, %v", projects, err)
	}
	peer := dialLibvirt(b, uri)
	b.ResetTimer()
	for range b.N {
		var portal, plain durations
		for i := range startSamples + 1 {
			vm, took := createByPortal(b, api, client.NewVM{
				Name: fmt.Sprintf("bench-%d", i), ProjectID: projects.Items[0].ID, HostID: hosts.Items[0].ID, Start: true,
				Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 128, Firmware: fleet.BIOS},
			})
			other := createByLibvirt(b, peer, vm)
			removeVM(b, api, vm)
			if i > 0 { // the first round warms up the portal and libvirt
				portal, plain = append(portal, took), append(plain, other)
			}
		}
		portal.report(b, "portal")
		plain.report(b, "libvirt")
		b.ReportMetric(milliseconds(portal.percentile(0.5)-plain.percentile(0.5)), "portal-above-libvirt-p50-ms")
		b.ReportMetric(60, "limit-above-libvirt-ms")
		goals.Start.Record(b, portal.percentile(0.5) <= plain.percentile(0.5)+60*time.Millisecond, fmt.Sprintf("%.0f ms", milliseconds(portal.percentile(0.5))), fmt.Sprintf("plain libvirt, the same XML: %.0f ms", milliseconds(plain.percentile(0.5))), portal.ratioTo(plain))
	}
}

func createByPortal(b *testing.B, api *client.Client, in client.NewVM) (fleet.VMID, time.Duration) {
	b.Helper()
	began := time.Now()
	vm, err := api.CreateVM(b.Context(), in, "")
	if err != nil {
		b.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // no guest starts faster, and polling would use the two processors that are measured
	for time.Since(began) < time.Minute {
		now, err := api.VM(b.Context(), vm.ID)
		if err != nil {
			b.Fatal(err)
		}
		if now.Phase == fleet.PhaseRunning {
			return vm.ID, time.Since(began)
		}
		if now.Status != nil && now.Status.Error != "" {
			b.Fatal(now.Status.Error)
		}
		time.Sleep(5 * time.Millisecond)
	}
	b.Fatal("the VM did not start")
	return "", 0
}

func removeVM(b *testing.B, api *client.Client, id fleet.VMID) {
	b.Helper()
	task, err := api.DeleteVM(b.Context(), id, false, "")
	if err == nil {
		_, err = api.WaitTask(b.Context(), task.ID)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// createByLibvirt defines and starts a copy of the guest that the portal created, with the same XML.
func createByLibvirt(b *testing.B, l *libvirt.Libvirt, twin fleet.VMID) time.Duration {
	b.Helper()
	bytes, err := hex.DecodeString(strings.ReplaceAll(string(twin), "-", ""))
	if err != nil {
		b.Fatal(err)
	}
	domain, err := l.DomainLookupByUUID(libvirt.UUID(bytes))
	if err != nil {
		b.Fatal(err)
	}
	text, err := l.DomainGetXMLDesc(domain, libvirt.DomainXMLInactive)
	if err != nil {
		b.Fatal(err)
	}
	for _, part := range []string{`(?s)<metadata>.*</metadata>`, `<uuid>.*</uuid>`, `<mac address=.*/>`} {
		text = regexp.MustCompile(part).ReplaceAllString(text, "")
	}
	text = regexp.MustCompile(`<name>.*</name>`).ReplaceAllString(text, "<name>plain-"+string(twin)+"</name>")
	began := time.Now()
	created, err := l.DomainDefineXMLFlags(text, 0)
	if err == nil {
		err = l.DomainCreate(created)
	}
	took := time.Since(began)
	if err != nil {
		b.Fatal(err)
	}
	if err := l.DomainDestroy(created); err != nil {
		b.Fatal(err)
	}
	if err := l.DomainUndefineFlags(created, libvirt.DomainUndefineNvram); err != nil {
		b.Fatal(err)
	}
	return took
}

func dialLibvirt(b *testing.B, uri string) *libvirt.Libvirt {
	b.Helper()
	_, socket, _ := strings.Cut(uri, "socket=")
	l := libvirt.NewWithDialer(dialers.NewLocal(dialers.WithSocket(socket), dialers.WithLocalTimeout(5*time.Second)))
	if err := l.Connect(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Disconnect() })
	return l
}

// startLab builds the program and runs its lab. uri is the libvirt URI of the first host.
func startLab(b *testing.B) (url, token, uri string, pid int) {
	b.Helper()
	url, token, uris, pid := runLab(b)
	return url, token, uris[0], pid
}

// runLab builds the program and runs its lab. uris are the libvirt URIs of its hosts.
func runLab(b *testing.B) (url, token string, uris []string, pid int) {
	b.Helper()
	dir, err := os.MkdirTemp("/tmp", "qxbench") // paths of Unix sockets must be short
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	program := filepath.Join(dir, "quantix")
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-o", program, "quantix").CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	cmd := exec.CommandContext(context.WithoutCancel(b.Context()), program, "lab", "--json", "--listen", "127.0.0.1:0")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			b.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			b.Errorf("the lab ended: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		b.Fatalf("the lab is not ready: %v", err)
	}
	var ready struct {
		URL      string `json:"url"`
		APIToken string `json:"apiToken"`
		Hosts    []struct {
			LibvirtURI string `json:"libvirtUri"`
		} `json:"hosts"`
	}
	if err := json.Unmarshal(line, &ready); err != nil {
		b.Fatal(err)
	}
	for _, h := range ready.Hosts {
		uris = append(uris, h.LibvirtURI)
	}
	return ready.URL, ready.APIToken, uris, cmd.Process.Pid
}

//go:build linux && ordeal

package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
)

// TestDiskGrowsWhileGuestRuns grows the disk of a VM on a real host from the VM's page: once while the guest runs, so
// that its kernel must see the new size, and once while the VM is off.
func TestDiskGrowsWhileGuestRuns(t *testing.T) {
	t.Parallel()
	s := labProgram.get(t)
	a, h := s.api(), s.Hosts[0]
	host, shared, name := a.hostByName(t, h.Name), a.poolByName(t, "shared"), uniqueName("grower")
	vm := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": name, "projectId": a.projectByName(t, "lab").ID, "hostId": host.ID,
		"spec": map[string]any{"cpus": 1, "memoryMiB": 256, "disks": []any{
			map[string]any{"poolId": shared.ID, "image": map[string]any{"poolId": shared.ID, "volume": "tiny-guest.qcow2"}},
		}},
	})
	a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseStopped)
	guest := addSerialPort(t, h, name)
	requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodPost, "/api/v1/vms/"+string(vm.ID)+"/actions", map[string]any{"action": "start"})
	a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseRunning)
	guest.dial().waitDiskSize("131072") // 64 MiB

	p := newTab(t, s.URL)
	p.signIn(s)
	grow := func(mib, now string, bytes int64) {
		t.Helper()
		p.open("/vms/" + string(vm.ID))
		p.pickMenuItem("main dl summary", "", "Grow")
		p.waitText("#dialog", "A disk cannot shrink")
		p.fillInput("#dialog #size", mib)
		p.click("#dialog button.primary", "Grow disk")
		eventually(t, stepLimit, "a disk of "+now, func() (bool, string) {
			v := a.getVM(t, vm.ID)
			return v.Status.Disks[0].SizeBytes == bytes && v.ObservedGeneration == v.Generation, fmt.Sprintf("%+v", v.Status.Disks)
		})
		p.waitText("main dl", now)
	}
	grow("128", "128 MiB", 128<<20)
	guest.waitDiskSize("262144")
	if info := virsh(t, h, "domblkinfo", name, "vda"); !strings.Contains(info, "134217728") {
		t.Errorf("libvirt reports %s", info)
	}
	// A disk grown by virsh keeps that size, which is the minimum for the next growth.
	virsh(t, h, "blockresize", name, "vda", "160MiB")
	guest.waitDiskSize("327680")
	p.waitText("main dl", "160 MiB")
	got, err := a.send(t.Context(), http.MethodPost, "/api/v1/vms/"+string(vm.ID)+"/disks/grow", map[string]any{"disk": vm.Spec.Disks[0].Ref(), "sizeBytes": 150 << 20})
	if err != nil || got.status != http.StatusUnprocessableEntity || !strings.Contains(string(got.body), "160 MiB already") {
		t.Errorf("less than the host has: %d %s %v", got.status, got.body, err)
	}
	virsh(t, h, "destroy", name)
	a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseStopped)
	grow("256", "256 MiB", 256<<20)
	guest.close()
	a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseStopped)
	requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodPost, "/api/v1/vms/"+string(vm.ID)+"/actions", map[string]any{"action": "start"})
	a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseRunning)
	guest.dial().waitDiskSize("524288")
	requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodDelete, "/api/v1/vms/"+string(vm.ID)+"?disks=true&purge=true&confirm="+name, nil)
}

// serialGuest is a guest with a shell on its serial port.
type serialGuest struct {
	t      *testing.T
	socket string
	conn   net.Conn
	in     *bufio.Reader
}

// ownPort matches the serial port that Quantix adds to a VM, and the console element that refers to the port.
var ownPort = regexp.MustCompile(`(?s)<serial type.*?</serial>|<console type.*?</console>`)

// addSerialPort gives a stopped domain a serial port that the test can read, by editing its definition with virsh.
func addSerialPort(t *testing.T, h readyHost, name string) *serialGuest {
	t.Helper()
	g := &serialGuest{t: t, socket: filepath.Join(labDir(), name+".sock")}
	text := virsh(t, h, "dumpxml", name, "--inactive", "--security-info")
	text = ownPort.ReplaceAllString(text, "")
	port := fmt.Sprintf("<serial type='unix'><source mode='bind' path='%s'/></serial></devices>", g.socket)
	file := filepath.Join(t.TempDir(), name+".xml")
	writeFile(t, file, strings.Replace(text, "</devices>", port, 1))
	virsh(t, h, "define", file)
	t.Cleanup(g.close)
	return g
}

func (g *serialGuest) dial() *serialGuest {
	g.t.Helper()
	eventually(g.t, stepLimit, "the serial port", func() (bool, string) {
		conn, err := net.Dial("unix", g.socket)
		g.conn = conn
		return err == nil, fmt.Sprint(err)
	})
	g.in = bufio.NewReader(g.conn)
	return g
}

func (g *serialGuest) close() {
	if g.conn != nil {
		g.conn.Close()
	}
}

// waitDiskSize waits until the guest's kernel sees the disk with the given number of sectors.
func (g *serialGuest) waitDiskSize(sectors string) {
	g.t.Helper()
	eventually(g.t, guestLimit, "a disk of "+sectors+" sectors in the guest", func() (bool, string) {
		_ = g.conn.SetDeadline(time.Now().Add(2 * time.Second))
		if _, err := io.WriteString(g.conn, "echo has $(cat /sys/block/vda/size) sectors\n"); err != nil {
			return false, err.Error()
		}
		output := ""
		for {
			line, err := g.in.ReadString('\n')
			output += line
			if strings.Contains(line, "has "+sectors+" sectors") {
				return true, ""
			}
			if err != nil {
				return false, output
			}
		}
	})
}

// TestVolumeRenameAndDownload renames a volume of a real host on the pool's page, and downloads the volume by the
// page's link and with an API token. The bytes must equal the bytes of the file.
func TestVolumeRenameAndDownload(t *testing.T) {
	t.Parallel()
	s := labProgram.get(t)
	a, p := s.api(), newTab(t, s.URL)
	p.signIn(s)
	pool := uniqueName("taken")
	dir := filepath.Join(labDir(), "pools", pool)
	p.createPool(pool, dir)
	id := a.poolByName(t, pool).ID
	requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodPost, "/api/v1/pools/"+string(id)+"/volumes", map[string]any{
		"name": "old.raw", "format": "raw", "sizeBytes": 256 << 20, "hostId": a.hostByName(t, s.Hosts[0].Name).ID,
	})
	p.open("/pools/" + string(id) + "?tab=volumes")
	p.waitText("tr:has(th[title$='/old.raw'])", "256 MiB")
	text := randomBytes(20 << 20)
	for i := range 4 {
		copy(text[i<<20:], "a volume of which all is to come")
	}
	f, err := os.OpenFile(filepath.Join(dir, "old.raw"), os.O_RDWR, 0)
	if err == nil {
		_, err = f.WriteAt(text, 0)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	p.open("/pools/" + string(id) + "/volumes/rename?volume=old.raw&host=" + string(a.hostByName(t, s.Hosts[0].Name).ID))
	p.fillInput("#name", "new.raw")
	p.click("button.primary", "Rename")
	p.waitText("#dock", "Rename volume")
	p.open("/pools/" + string(id) + "?tab=volumes")
	p.waitText("tr:has(th[title$='/new.raw'])", "256 MiB")
	p.waitNoText("#pool-body tbody", "old.raw")
	if _, err := os.Stat(filepath.Join(dir, "old.raw")); !os.IsNotExist(err) {
		t.Errorf("the old name: %v", err)
	}
	link, err := evalJS[string](p, `[...document.querySelectorAll("tr:has(th[title$='/new.raw']) .menu-item")].find((item) => item.textContent.trim() === "Download").href`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := evalJS[bool](p, fmt.Sprintf(`(() => {
		(async () => {
			const answer = await fetch(%s);
			const reader = answer.body.getReader();
			const first = await reader.read();
			await reader.cancel();
			window.came = answer.headers.get("Content-Disposition") + " " + answer.headers.get("Content-Length") + " " + (first.value.length > 0);
		})();
		return true;
	})()`, jsString(link))); err != nil {
		t.Fatal(err)
	}
	p.waitTrue("the bytes by the page's link", `window.came === "attachment; filename=new.raw 268435456 true"`)
	// The download that the page cancelled must have released the volume.
	client := http.Client{Timeout: guestLimit} // 256 MiB take a busy machine a while
	eventually(t, guestLimit, "the bytes by a token", func() (bool, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.url+"/api/v1/pools/"+string(id)+"/volumes/new.raw/content", nil)
		if err != nil {
			return false, err.Error()
		}
		req.Header.Set("Authorization", "Bearer "+a.token)
		res, err := client.Do(req)
		if err != nil {
			return false, err.Error()
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK || res.ContentLength != 256<<20 {
			return false, fmt.Sprint(res.StatusCode, res.ContentLength)
		}
		head := make([]byte, len(text))
		if _, err := io.ReadFull(res.Body, head); err != nil || !bytes.Equal(head, text) {
			return false, fmt.Sprintf("other bytes came: %v", err)
		}
		rest, err := io.Copy(io.Discard, res.Body)
		return err == nil && rest == 256<<20-int64(len(text)), fmt.Sprint(rest, err)
	})
}

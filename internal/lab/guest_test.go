//go:build linux && ordeal

package lab_test

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quantix/internal/lab"
)

// diskGuest is a domain that boots the guest's disk, with a Unix socket as serial console. The format verbs are the
// machine type, the disk's path and the socket's path.
const diskGuest = `<domain type='qemu'>
  <name>guest</name>
  <memory unit='MiB'>128</memory>
  <vcpu>1</vcpu>
  <os><type arch='x86_64' machine='%s'>hvm</type></os>
  <features><acpi/></features>
  <devices>
    <disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='%s'/><target dev='vda' bus='virtio'/></disk>
    <interface type='network'><source network='default'/><model type='virtio'/></interface>
    <serial type='unix'><source mode='bind' path='%s'/></serial>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    <graphics type='vnc'><listen type='socket'/></graphics>
    <video><model type='vga'/></video>
  </devices>
</domain>`

func TestGuestBootsAndObeysPowerCommands(t *testing.T) {
	t.Parallel()
	files := guestImage(t)
	h := startHost(t, "booter")
	dir := hostDir(t)
	disk, socket := filepath.Join(dir, "guest.qcow2"), filepath.Join(dir, "serial")
	if out, err := exec.Command("qemu-img", "create", "-q", "-f", "qcow2", "-b", files.Disk, "-F", "qcow2", disk).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	began := time.Now()
	startGuest(t, h, fmt.Sprintf(diskGuest, "pc", disk, socket), "guest")
	serial := dialConsole(t, socket)
	serial.expect("Quantix guest ready")
	t.Logf("booted from its disk in %v", time.Since(began))

	serial.expect("# ")
	serial.send("echo $((6 * 7)) from $(hostname)\n")
	serial.expect("42 from quantix-guest")
	serial.send("cat /sys/block/vda/size\n")
	serial.expect("131072")

	// The keys are typed into the shell on the screen. The serial shell then reads the file that the first shell wrote.
	for _, keys := range []string{"KEY_I", "KEY_D", "KEY_LEFTSHIFT KEY_DOT", "KEY_SLASH", "KEY_T", "KEY_ENTER"} {
		virsh(t, h, append([]string{"send-key", "guest"}, strings.Fields(keys)...)...)
	}
	serial.send("until [ -s /t ]; do sleep 0.1; done; cat /t\n")
	serial.expect("uid=0")

	eventually(t, "the guest has an address", func() bool {
		return strings.Contains(virsh(t, h, "domifaddr", "guest"), "192.168.")
	})
	eventually(t, "the guest agent answers", func() bool {
		// Without a timeout libvirt waits forever for a guest agent that has just disappeared.
		_, err := h.Virsh(t.Context(), "qemu-agent-command", "guest", "--timeout", "5", `{"execute":"guest-ping"}`)
		return err == nil
	})

	virsh(t, h, "reboot", "guest", "--mode", "agent")
	serial.expect("Quantix guest ready")

	began = time.Now()
	virsh(t, h, "shutdown", "guest", "--mode", "acpi")
	eventually(t, "the guest is off", func() bool { return virsh(t, h, "domstate", "guest") == "shut off" })
	t.Logf("shut down in %v", time.Since(began))
}

func TestGuestImageIsBuiltOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	built := make(chan lab.GuestFiles)
	for range 2 {
		go func() {
			files, err := lab.GuestImage(t.Context(), dir)
			if err != nil {
				t.Error(err)
			}
			built <- files
		}()
	}
	if a, b := <-built, <-built; a != b {
		t.Errorf("two images: %+v and %+v", a, b)
	}
	entries, err := filepath.Glob(filepath.Join(dir, "*guest-*"))
	if err != nil || len(entries) != 1 {
		t.Errorf("the cache holds %v (%v), want one entry", entries, err)
	}
}

func guestImage(t *testing.T) lab.GuestFiles {
	t.Helper()
	began := time.Now()
	files, err := lab.GuestImage(t.Context(), lab.CacheDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("guest image ready after %v", time.Since(began))
	return files
}

// eventually polls until ok returns true. Its time limit is generous, because guests are emulated and share the
// processors with other tests' guests.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), guestLimit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("timed out: %s", what)
		case <-tick.C:
		}
	}
}

// console is the guest's serial console.
type console struct {
	t    *testing.T
	conn net.Conn
	text string // output that no call of expect has consumed yet
}

func dialConsole(t *testing.T, socket string) *console {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &console{t: t, conn: conn}
}

func (c *console) send(text string) {
	c.t.Helper()
	if _, err := c.conn.Write([]byte(text)); err != nil {
		c.t.Fatal(err)
	}
}

// expect reads until the guest has written want.
func (c *console) expect(want string) {
	c.t.Helper()
	_ = c.conn.SetReadDeadline(time.Now().Add(guestLimit))
	buf := make([]byte, 4096)
	for {
		if _, rest, ok := strings.Cut(c.text, want); ok {
			c.text = rest
			return
		}
		n, err := c.conn.Read(buf)
		c.text += string(buf[:n])
		if err != nil {
			c.t.Fatalf("the serial console lacks %q: %v; it has:\n%s", want, err, c.text)
		}
	}
}

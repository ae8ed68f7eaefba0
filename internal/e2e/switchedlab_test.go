//go:build linux

package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/lab"
)

// switchedLab is a lab with two hosts in networks of their own, which a switch connects.
type switchedLab struct {
	*playground
	api
	dir    string
	hosts  [2]fleet.HostView
	subnet string // subnet of the switch
	portal string // this machine's address in the subnet
	ids    map[string]fleet.NetworkID
}

const confirmWithin = 6 * time.Second

func newSwitchedLab(t *testing.T, name string) *switchedLab {
	t.Helper()
	s := &switchedLab{dir: filepath.Join(root, name), ids: map[string]fleet.NetworkID{}}
	env := []string{fmt.Sprintf("QUANTIX_NETWORK_CONFIRM=%d", confirmWithin/time.Second)}
	var err error
	if s.playground, err = startPlayground(name, env, "lab", "--apart", "--json", "--listen", "127.0.0.1:0", "--data-dir", s.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			showLogs(t, s.log, s.hostFile(0, "agent.log"), s.hostFile(1, "agent.log"))
		}
		if err := s.signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	})
	s.api = s.playground.api()
	for i := range s.hosts {
		s.hosts[i] = s.api.hostByName(t, fmt.Sprintf("host-%d", i+1))
	}
	text, err := os.ReadFile(filepath.Join(s.dir, "agent-address"))
	if err != nil {
		t.Fatal(err)
	}
	if s.portal, _, err = net.SplitHostPort(strings.TrimSpace(string(text))); err != nil {
		t.Fatal(err)
	}
	s.subnet = strings.TrimSuffix(s.portal, "1") + "0/24"
	return s
}

// hostFile returns the path of a file in the directory of the first or second host.
func (s *switchedLab) hostFile(i int, name string) string {
	return filepath.Join(s.dir, fmt.Sprintf("h%d", i+1), name)
}

// agentPID returns the process ID of a host's agent, not of the shells around it or of its rollback process.
func (s *switchedLab) agentPID(t *testing.T, i int) (pid int) {
	t.Helper()
	eventually(t, stepLimit, "an agent runs", func() (bool, string) {
		path, err := binary()
		for _, p := range processesOf(path, "agent", "--portal", s.hostFile(i, "agent")) {
			if exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", p)); filepath.Base(exe) == filepath.Base(path) {
				pid = p
			}
		}
		return pid != 0, fmt.Sprint(err)
	})
	return pid
}

// runInNetwork runs a command in a host's network namespace.
func (s *switchedLab) runInNetwork(t *testing.T, i int, name string, args ...string) string {
	t.Helper()
	return s.runInNamespaces(t, i, []string{"--net"}, name, args...)
}

// runInNamespaces runs a command in the given kinds of namespaces of a host.
func (s *switchedLab) runInNamespaces(t *testing.T, i int, namespaces []string, name string, args ...string) string {
	t.Helper()
	args = append(append([]string{"--target", strconv.Itoa(s.agentPID(t, i))}, namespaces...), append([]string{"--", name}, args...)...)
	out, err := exec.CommandContext(t.Context(), "nsenter", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// defineNetwork creates a network on the given hosts.
func (s *switchedLab) defineNetwork(t *testing.T, name string, spec map[string]any, on ...int) {
	t.Helper()
	ids := []fleet.HostID{}
	for _, i := range on {
		ids = append(ids, s.hosts[i].ID)
	}
	if spec["dns"] == nil {
		spec["dns"] = false
	}
	n := requestJSON[fleet.NetworkView](t, s.api, http.StatusCreated, http.MethodPost, "/api/v1/networks", map[string]any{"name": name, "hostIds": ids, "spec": spec})
	s.ids[name] = n.ID
}

func (s *switchedLab) networkPath(name string) string {
	return "/api/v1/networks/" + string(s.ids[name])
}

// waitNetwork waits until ok is true for the network's status on every host.
func (s *switchedLab) waitNetwork(t *testing.T, name, what string, ok func(fleet.NetworkHost) bool) {
	t.Helper()
	eventually(t, stepLimit, name+": "+what, func() (bool, string) {
		n := requestJSON[fleet.NetworkView](t, s.api, http.StatusOK, http.MethodGet, s.networkPath(name), nil)
		for _, h := range n.Hosts {
			if !ok(h) {
				return false, fmt.Sprintf("%s: %s %+v", h.HostName, h.State, h.Status)
			}
		}
		return len(n.Hosts) > 0, "it is on no host"
	})
}

func (s *switchedLab) removeNetwork(t *testing.T, name string) {
	t.Helper()
	requestJSON[any](t, s.api, http.StatusAccepted, http.MethodDelete, s.networkPath(name), nil)
	eventually(t, stepLimit, name+" is gone", func() (bool, string) {
		left := listFirstPage[fleet.NetworkView](t, s.api, "/api/v1/networks?filter=name:"+name)
		return len(left) == 0, fmt.Sprintf("%+v", left)
	})
}

func isNetworkUp(h fleet.NetworkHost) bool {
	return h.State == fleet.NetworkActive && h.Status.Error == "" && h.Status.RolledBack == nil
}

// netGuest is a guest that was defined with virsh. It has NICs on one or several networks and a shell on its serial
// port.
type netGuest struct {
	t        *testing.T
	name     string
	conn     net.Conn
	in       *bufio.Reader
	commands int
}

// bootGuest starts a guest. A network name may be followed by a port group ("lan/voice") and by a MAC address after @.
func (s *switchedLab) bootGuest(t *testing.T, files lab.GuestFiles, i int, name string, networks ...string) *netGuest {
	t.Helper()
	s.defineGuest(t, files, i, name, networks...)
	virsh(t, s.Hosts[i], "start", name)
	return s.connectSerial(t, i, name)
}

func (s *switchedLab) serialSocket(name string) string { return filepath.Join(s.dir, name+".sock") }

func (s *switchedLab) defineGuest(t *testing.T, files lab.GuestFiles, i int, name string, networks ...string) {
	t.Helper()
	var nics strings.Builder
	for _, n := range networks {
		n, mac, _ := strings.Cut(n, "@")
		n, group, _ := strings.Cut(n, "/")
		fmt.Fprintf(&nics, "<interface type='network'><source network='%s'", n)
		if group != "" {
			fmt.Fprintf(&nics, " portgroup='%s'", group)
		}
		nics.WriteString("/>")
		if mac != "" {
			fmt.Fprintf(&nics, "<mac address='%s'/>", mac)
		}
		nics.WriteString("<model type='virtio'/></interface>")
	}
	file := filepath.Join(t.TempDir(), name+".xml")
	writeFile(t, file, fmt.Sprintf(`<domain type='qemu'><name>%s</name><memory unit='MiB'>160</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='pc'>hvm</type><kernel>%s</kernel><initrd>%s</initrd>
<cmdline>console=ttyS0 quiet mitigations=off i8042.dumbkbd i8042.noaux no_timer_check</cmdline></os><features><acpi/></features>
<devices>%s<serial type='unix'><source mode='bind' path='%s'/></serial><controller type='usb' model='none'/><memballoon model='none'/></devices></domain>`,
		name, files.Kernel, files.Initrd, nics.String(), s.serialSocket(name)))
	virsh(t, s.Hosts[i], "define", file)
}

// connectSerial connects to the serial port of a started guest.
func (s *switchedLab) connectSerial(t *testing.T, i int, name string) *netGuest {
	t.Helper()
	h, g := s.Hosts[i], &netGuest{t: t, name: name}
	eventually(t, stepLimit, name+"'s serial port", func() (bool, string) {
		conn, err := net.Dial("unix", s.serialSocket(name))
		g.conn = conn
		return err == nil, fmt.Sprint(err)
	})
	t.Cleanup(func() {
		g.conn.Close()
		_, _ = commandOutput(t.Context(), "virsh", "-q", "-c", h.LibvirtURI, "destroy", name)
	})
	g.in = bufio.NewReader(g.conn)
	return g
}

// waitReady waits for the guest's shell and assigns the addresses to its NICs.
func (g *netGuest) waitReady(addresses ...string) *netGuest {
	g.t.Helper()
	eventually(g.t, 3*stepLimit, g.name+"'s shell", func() (bool, string) {
		out, ok := g.tryCommand("echo up", 2*time.Second)
		return ok && strings.Contains(out, "up"), out
	})
	g.runCommand("stty -echo; killall udhcpc; while killall -0 udhcpc 2>/dev/null; do usleep 100000; done; true")
	for i, a := range addresses {
		g.runCommand(fmt.Sprintf("ip addr flush dev eth%d; ip addr add %s dev eth%d; ip link set eth%d up", i, a, i, i))
	}
	return g
}

// tryCommand runs a command in the guest. ok reports whether it ended in time.
func (g *netGuest) tryCommand(command string, within time.Duration) (string, bool) {
	g.commands++
	end := fmt.Sprintf("end%d", g.commands)
	_ = g.conn.SetDeadline(time.Now().Add(within))
	if _, err := fmt.Fprintf(g.conn, "%s\necho \"e\"nd%d-$?\n", command, g.commands); err != nil {
		return err.Error(), false
	}
	out := ""
	for {
		line, err := g.in.ReadString('\n')
		if err != nil {
			return out + line, false
		}
		if strings.Contains(line, end+"-") {
			return out, true
		}
		out += line
	}
}

// withTest returns the guest with another test to report failures to, such as a subtest.
func (g *netGuest) withTest(t *testing.T) *netGuest {
	g.t = t
	return g
}

func (g *netGuest) runCommand(command string) string {
	g.t.Helper()
	out, ok := g.tryCommand(command, stepLimit)
	if !ok {
		g.t.Fatalf("%s: %s did not end: %s", g.name, command, out)
	}
	return out
}

var pinged = regexp.MustCompile(`(\d+) packets received`)

// countPingReplies returns the number of replies to three pings.
func (g *netGuest) countPingReplies(to string) int {
	g.t.Helper()
	m := pinged.FindStringSubmatch(g.runCommand("ping -q -c 3 -W 2 " + to))
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

func (g *netGuest) checkReaches(what, to string) {
	g.t.Helper()
	eventually(g.t, stepLimit, fmt.Sprintf("%s: %s reaches %s", what, g.name, to), func() (bool, string) {
		n := g.countPingReplies(to)
		return n == 3, fmt.Sprintf("%d of 3 answers", n)
	})
}

//go:build linux && ordeal

package libvirt_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// procStoragePoolRefresh is the call's procedure number in libvirt's protocol.
const procStoragePoolRefresh = 83

// libvirtProxy forwards connections to libvirtd's socket. It can drop calls of one procedure, as if libvirtd hung in
// the call, and report each call that changes something.
type libvirtProxy struct {
	socket  string
	changes atomic.Pointer[changeObserver] // observes the calls of connections opened later; nil: no observer
	drop    atomic.Uint32                  // procedure whose calls are dropped; 0: none
	dropped atomic.Int32
	garbled atomic.Pointer[[]string] // the proxy replaces the last byte of these texts in libvirtd's answers; nil: none

	mu    sync.Mutex
	conns []net.Conn
}

func newProxy(t *testing.T) *libvirtProxy {
	t.Helper()
	p := &libvirtProxy{socket: filepath.Join(t.TempDir(), "sock")}
	l, err := net.Listen("unix", p.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); p.closeConnections() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p
}

// closeConnections closes all connections.
func (p *libvirtProxy) closeConnections() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

func (p *libvirtProxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("unix", "/run/libvirt/libvirt-sock")
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	p.conns = append(p.conns, client, server)
	p.mu.Unlock()
	watch := p.changes.Load()
	if watch == nil {
		watch = &changeObserver{onChange: func(string) bool { return true }}
	}
	var pending sync.Map // pending changing calls, by serial number
	go func() {
		defer client.Close()
		for {
			in, err := readPacket(server)
			if err != nil {
				return
			}
			if what, ok := pending.LoadAndDelete(in.serial); ok && in.kind == packetReply && !watch.onChange("after "+what.(string)) {
				return
			}
			if texts := p.garbled.Load(); texts != nil {
				for _, text := range *texts {
					in.bytes = bytes.ReplaceAll(in.bytes, []byte(text), []byte(text[:len(text)-1]+"<"))
				}
			}
			if _, err := client.Write(in.bytes); err != nil {
				return
			}
		}
	}()
	for {
		out, err := readPacket(client)
		if err != nil {
			return
		}
		if out.proc == p.drop.Load() {
			p.dropped.Add(1)
			continue
		}
		what, changes := out.changeMade()
		if changes {
			pending.Store(out.serial, what)
		}
		if changes && !watch.onChange("before "+what) {
			return
		}
		if _, err := server.Write(out.bytes); err != nil {
			return
		}
		if changes && !watch.onChange("in the middle of "+what) {
			return
		}
	}
}

// changeObserver is called for each changing call: before libvirtd gets the call, after libvirtd got the call, and
// before the proxy forwards the answer. If onChange returns false, the proxy closes the connection.
type changeObserver struct{ onChange func(what string) bool }

// changingProcedures maps procedure numbers of libvirt's protocol to the changes that they make to VMs, volumes and
// secrets.
var changingProcedures = map[uint32]string{
	11: "define", 350: "define", 231: "undefine", 9: "start", 33: "shut down",
	142: "define a secret", 144: "set a secret", 146: "undefine a secret",
	93: "make a volume", 125: "copy a volume", 94: "delete a volume", 260: "grow a volume",
	160: "attach", 174: "update a device", 392: "detach", 199: "add CPUs", 204: "set the balloon", 251: "grow a disk", 219: "schedule vCPUs",
}

// changeMade returns the change that the packet's call makes. ok is false if the call changes nothing.
func (p packet) changeMade() (what string, ok bool) {
	switch {
	case p.kind != packetCall:
		return "", false
	case p.program == programQEMU && p.proc == procAgentCommand:
		return "begin a program", bytes.Contains(p.bytes, []byte(`"guest-exec"`))
	case p.program == programQEMU:
		return "", false
	}
	what, ok = changingProcedures[p.proc]
	return what, ok
}

const (
	packetCall  = 0
	packetReply = 1

	programQEMU      = 0x20008087 // the QEMU-specific protocol
	procAgentCommand = 3          // the procedure of a guest agent command
)

// packet is one message of libvirt's RPC protocol. Its header has four-byte fields: length, program, version,
// procedure, type (call or reply), serial number.
type packet struct {
	bytes                       []byte
	program, proc, kind, serial uint32
}

func readPacket(from io.Reader) (packet, error) {
	head := make([]byte, 24)
	if _, err := io.ReadFull(from, head); err != nil {
		return packet{}, err
	}
	all := make([]byte, max(len(head), int(binary.BigEndian.Uint32(head))))
	_, err := io.ReadFull(from, all[copy(all, head):])
	at := func(n int) uint32 { return binary.BigEndian.Uint32(head[n:]) }
	return packet{all, at(4), at(12), at(16), at(20)}, err
}

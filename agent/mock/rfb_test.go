package mock

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// rfbClient is a minimal RFB client.
type rfbClient struct {
	t *testing.T
	net.Conn
}

func (v rfbClient) send(b ...byte) {
	v.t.Helper()
	if _, err := v.Write(b); err != nil {
		v.t.Fatal(err)
	}
}

func (v rfbClient) read(n int) []byte {
	v.t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(v, b); err != nil {
		v.t.Fatal(err)
	}
	return b
}

// update requests a picture and returns the pixels of each received row by its y coordinate.
func (v rfbClient) update(incremental byte, pixel int) map[int][]byte {
	v.t.Helper()
	v.send(3, incremental, 0, 0, 0, 0, 2, 48, 1, 69)
	head := v.read(4)
	out := map[int][]byte{}
	for range binary.BigEndian.Uint16(head[2:]) {
		r := v.read(12)
		y, w, h := binary.BigEndian.Uint16(r[2:]), binary.BigEndian.Uint16(r[4:]), binary.BigEndian.Uint16(r[6:])
		out[int(y)] = v.read(int(w) * int(h) * pixel)
	}
	return out
}

func TestVNCScreenEchoesKeys(t *testing.T) {
	t.Parallel()
	h := New(Options{Name: "h"})
	vm := fleet.VM{Meta: fleet.Meta{ID: fleet.NewID[fleet.VMID](), Name: "web"}, Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 128}}
	if err := h.ApplyVM(t.Context(), hypervisor.ApplyWork{VM: vm, Progress: func(int, string) {}}); err != nil {
		t.Fatal(err)
	}
	if err := h.StartVM(t.Context(), vm.ID); err != nil {
		t.Fatal(err)
	}
	conn, err := h.Console(t.Context(), vm.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	v := rfbClient{t, conn}
	v.send(v.read(12)...)
	v.read(2)
	v.send(1)
	if !bytes.Equal(v.read(4), make([]byte, 4)) {
		t.Error("the security result is not success")
	}
	v.send(1)
	if size := v.read(24); binary.BigEndian.Uint16(size) != width || binary.BigEndian.Uint16(size[2:]) != height {
		t.Errorf("the size is % x", size)
	}
	if name := string(v.read(3)); name != "web" {
		t.Errorf("the desktop is called %q", name)
	}
	v.send(2, 0, 0, 1, 0, 0, 0, 0)
	first := v.update(0, 4)
	if len(first) != rows {
		t.Fatalf("the first picture has %d rows", len(first))
	}
	v.send(5, 0, 0, 1, 0, 1)                 // the mouse moves
	v.send(6, 0, 0, 0, 0, 0, 0, 2, 'h', 'i') // something is pasted
	v.send(4, 1, 0, 0, 0, 0, 0, 'a')         // the key a is pressed
	v.send(4, 0, 0, 0, 0, 0, 0, 'a')         // and released
	for y, row := range v.update(1, 4) {
		if bytes.Equal(row, first[y]) {
			t.Errorf("row %d was sent again unchanged", y)
		}
	}
	v.send(0, 0, 0, 0, 16, 16, 0, 1, 0, 31, 0, 63, 0, 31, 11, 5, 0, 0, 0, 0) // 16 bits per pixel
	if got := v.update(0, 2); len(got) != rows {
		t.Errorf("in 16 bits, %d rows were received", len(got))
	}
	if err := h.StopVM(t.Context(), vm.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Errorf("after the power-off: %v", err)
	}
}

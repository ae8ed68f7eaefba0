package conformance

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"testing"

	"quantix/internal/fleet"
)

// failingWriter is a writer that accepts a number of bytes and then fails.
type failingWriter struct {
	bytes.Buffer
	bytesLeft int
}

var errReaderDisconnected = errors.New("the browser has disconnected")

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.Len()+len(p) > w.bytesLeft {
		return 0, errReaderDisconnected
	}
	return w.Buffer.Write(p)
}

func testReadVolume(t *testing.T, h *testHost) {
	p := h.newPool()
	send := func(name string, to io.Writer) (int64, error) {
		told := int64(-1)
		err := h.ReadVolume(h.ctx, h.newVolumeJob(p, name, fleet.VolumeParams{}), func(size int64) (io.Writer, error) { told = size; return to, nil })
		return told, err
	}
	for _, kind := range []ImageKind{Raw, Qcow2, ISO} {
		name, known := "image-"+string(kind), recordedChecksums{}
		h.harness.AddImage(t, p, Image{Name: name, Kind: kind, SizeBytes: 4 << 20})
		h.requireNoError("hash", h.HashVolume(h.ctx, known.recordingJob(h.newVolumeJob(p, name, fleet.VolumeParams{}))))
		got := &failingWriter{bytesLeft: 64 << 20}
		size, err := send(name, got)
		h.requireNoError("send "+name, err)
		sum := sha256.Sum256(got.Bytes())
		if int64(got.Len()) != size || hex.EncodeToString(sum[:]) != known[fleet.Volref{PoolID: p.ID, Volume: name}].SHA256 {
			t.Errorf("%s: received %d bytes of %d, with the SHA-256 %x", name, got.Len(), size, sum)
		}
		if _, err := send(name, &failingWriter{}); !errors.Is(err, errReaderDisconnected) {
			t.Errorf("send to a disconnected reader: the error is %v, want errReaderDisconnected", err)
		}
		if _, err := send(name, got); err != nil {
			t.Errorf("send the volume again: %v", err)
		}
	}
	refused := func(act, name, why string) {
		t.Helper()
		got := &failingWriter{bytesLeft: 64 << 20}
		told, err := send(name, got)
		h.requireRefusal(act, err, why)
		if told != -1 || got.Len() > 0 {
			t.Errorf("%s: the refused job sent %d bytes", act, got.Len())
		}
	}
	vm := h.definedVM(newDisk(p))
	own := vm.Spec.Disks[0].Volume
	if _, err := send(own, &failingWriter{bytesLeft: 64 << 20}); err != nil {
		t.Errorf("send the disk of a stopped VM: %v", err)
	}
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	refused("send the disk of a running guest", own, vm.Name)
	refused("send a missing volume", "none", "none")
	refused("send a volume of another pool", "../up", "not a valid volume name")
	h.harness.AddOverlay(t, p, "top.qcow2", "image-"+string(Qcow2))
	refused("send a volume with a backing file", "top.qcow2", "alone is incomplete")
	h.harness.DeleteVolume(t, p, "top.qcow2")
}

package conformance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"slices"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// uploadRun is a running upload job for some bytes.
type uploadRun struct {
	in    hypervisor.VolumeWork
	text  []byte
	conns chan io.ReadWriteCloser
	ended chan struct{}
	err   error
	stop  context.CancelFunc
}

// validImage returns a valid image that is larger than a backend's buffers.
func validImage(size int) []byte {
	text := make([]byte, size)
	for i := 0; i < len(text); i += 8 {
		binary.LittleEndian.PutUint64(text[i:], uint64(i)*2654435761)
	}
	copy(text, "\xeb\x63\x90") // jump instruction of a boot sector
	text[510], text[511] = 0x55, 0xaa
	return text
}

func sha256Checksum(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (h *testHost) newUpload(p fleet.Pool, name string, text []byte, checksum string) *uploadRun {
	return &uploadRun{text: text, in: h.newVolumeJob(p, name, fleet.VolumeParams{Upload: fleet.NewID[fleet.UploadID](), SizeBytes: int64(len(text)), Checksum: checksum})}
}

// startUpload starts an upload job for the bytes.
func (h *testHost) startUpload(p fleet.Pool, name string, text []byte, checksum string) *uploadRun {
	return h.newUpload(p, name, text, checksum).restart(h)
}

// restart sends the job to the host again.
func (u *uploadRun) restart(h *testHost) *uploadRun {
	ctx, stop := context.WithCancel(h.ctx)
	u.conns, u.ended, u.stop = make(chan io.ReadWriteCloser), make(chan struct{}), stop
	u.in.UploadConns = u.conns
	in, ended := u.in, u.ended
	go func() {
		defer close(ended)
		u.err = h.UploadVolume(ctx, in)
	}()
	h.t.Cleanup(func() { stop(); <-ended })
	return u
}

// connect opens a connection and returns the number of bytes that the host already has.
func (u *uploadRun) connect(t *testing.T) (conn net.Conn, answer func() (wire.UploadAnswer, error), has int64) {
	t.Helper()
	conn, there := net.Pipe()
	select {
	case u.conns <- there:
	case <-u.ended:
		t.Fatalf("the upload has ended: %v", u.err)
	}
	answer = wire.NewUploadAnswerReader(conn)
	a, err := answer()
	if err != nil {
		t.Fatal(err)
	}
	return conn, answer, a.Offset
}

// sendUpTo sends the bytes from the host's offset up to the given offset.
func (u *uploadRun) sendUpTo(t *testing.T, to int64) {
	t.Helper()
	conn, answer, from := u.connect(t)
	defer conn.Close()
	for from < to {
		n := min(100_000, to-from)
		piece := make([]byte, wire.UploadHeader, wire.UploadHeader+n)
		wire.PutUploadHeader(piece, int(n))
		if _, err := conn.Write(append(piece, u.text[from:from+n]...)); err != nil {
			t.Fatal(err)
		}
		from += n
	}
	if _, err := conn.Write(make([]byte, wire.UploadHeader)); err != nil {
		t.Fatal(err)
	}
	if a, err := answer(); err != nil || a.Offset != to {
		t.Fatalf("the host reports %+v, %v, after %d bytes", a, err, to)
	}
}

func (u *uploadRun) wantSuccess(h *testHost, what string) {
	h.t.Helper()
	<-u.ended
	h.requireNoError(what, u.err)
}

func testUploadVolume(t *testing.T, h *testHost) {
	p := h.newPool()
	text := validImage(3 << 20)
	u := h.startUpload(p, "image.raw", text, sha256Checksum(text))
	for _, to := range []int64{1, 70_000, 1 << 20, 3 << 20} {
		u.sendUpTo(t, to)
	}
	u.wantSuccess(h, "upload")
	h.wantVolume(p, "image.raw", "raw", 3<<20)
	taken := h.startUpload(p, "image.raw", text, "")
	<-taken.ended
	h.requireRefusal("upload to the name of an existing volume", taken.err, "image.raw")

	// The result of the job was lost, and the job is repeated.
	var made string
	first := h.newUpload(p, "once.raw", text, "")
	first.in.RecordFile = func(file string) error { made = file; return nil }
	first.restart(h).sendUpTo(t, 3<<20)
	first.wantSuccess(h, "upload")
	first.in.RecordedFile = made
	first.restart(h).wantSuccess(h, "repeat the job")

	for _, bad := range []fleet.VolumeParams{{}, {SizeBytes: 1}, {Upload: "x"}, {Upload: "x", SizeBytes: 1, Checksum: "md5:00"}} {
		if err := h.UploadVolume(h.ctx, h.newVolumeJob(p, "bad.raw", bad)); fleet.CodeOf(err) != fleet.Invalid {
			t.Errorf("the error of the invalid upload %+v is %v, want fleet.Invalid", bad, err)
		}
	}
}

func testUploadChecksumVerified(t *testing.T, h *testHost) {
	p := h.newPool()
	page := append([]byte("<!DOCTYPE html><title>Sign in</title>"), bytes.Repeat([]byte("<p>text"), 20_000)...)
	for name, c := range map[string]struct {
		text           []byte
		checksum, says string
	}{
		"wrong.raw": {validImage(1 << 20), sha256Checksum(nil), "was deleted"},
		"page.raw":  {page, sha256Checksum(page), "The file that was uploaded is a web page"},
	} {
		u := h.startUpload(p, name, c.text, c.checksum)
		u.sendUpTo(t, int64(len(c.text)))
		<-u.ended
		h.requireRefusal("upload "+name, u.err, c.says)
		h.wantNoVolume(p, name)
	}
}

func testUploadResumes(t *testing.T, h *testHost) {
	p := h.newPool()
	text := validImage(5 << 20)
	u := h.startUpload(p, "image.raw", text, sha256Checksum(text))

	// A new connection replaces a connection that sends nothing.
	silent, _, _ := u.connect(t)
	defer silent.Close()
	u.sendUpTo(t, 1<<20)

	// If the connection breaks within a chunk of the upload, the received bytes of that chunk are not sent again.
	conn, _, from := u.connect(t)
	piece := make([]byte, wire.UploadHeader)
	wire.PutUploadHeader(piece, 200_000)
	if _, err := conn.Write(slices.Concat(piece, text[from:from+50_000])); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	back, _, has := u.connect(t)
	back.Close()
	if has != 1<<20+50_000 {
		t.Errorf("the host has %d bytes after an interrupted piece", has)
	}

	// More data than announced is refused, and the received data stays.
	conn, answer, _ := u.connect(t)
	wire.PutUploadHeader(piece, wire.MaxUploadPiece+1)
	if _, err := conn.Write(piece); err != nil {
		t.Fatal(err)
	}
	if a, err := answer(); err == nil {
		t.Errorf("the answer to more data than announced is %+v, want an error", a)
	}
	conn.Close()

	// The agent restarts, and the job is repeated and continues.
	u.stop()
	<-u.ended
	if u.err == nil {
		t.Fatal("a cancelled upload completed")
	}
	u.restart(h)
	conn, _, has = u.connect(t)
	conn.Close()
	if has != 1<<20+50_000 {
		t.Errorf("after the job was repeated, the host has %d bytes, want all bytes that arrived before", has)
	}
	u.sendUpTo(t, 5<<20)
	u.wantSuccess(h, "upload")
	h.wantVolume(p, "image.raw", "raw", 5<<20)
}

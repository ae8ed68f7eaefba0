package transfer_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"quantix/agent/transfer"
	"quantix/internal/fleet"
)

// testAuthority signs hosts' certificates.
type testAuthority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *testAuthority {
	t.Helper()
	a := &testAuthority{t: t, pool: x509.NewCertPool()}
	a.key, a.cert = a.sign("authority", nil, -48*time.Hour, 48*time.Hour)
	a.pool.AddCert(a.cert)
	return a
}

// sign returns a key and a certificate that is valid between two times, relative to now.
func (a *testAuthority) sign(name string, by *testAuthority, from, until time.Duration) (*ecdsa.PrivateKey, *x509.Certificate) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(until),
		BasicConstraintsValid: true, IsCA: by == nil, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	parent, signer := form, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, form, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return key, cert
}

// host returns a host with a certificate of the authority: its own identity, and the peer that others expect.
func (a *testAuthority) host(name string, life time.Duration) (transfer.HostIdentity, transfer.Peer) {
	return a.hostValid(name, -time.Hour, life)
}

func (a *testAuthority) hostValid(name string, from, until time.Duration) (transfer.HostIdentity, transfer.Peer) {
	key, cert := a.sign(name, a, from, until)
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return transfer.HostIdentity{Certificate: tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}, CA: a.pool},
		transfer.Peer{Host: fleet.HostID(name), KeyHash: hex.EncodeToString(sum[:])}
}

// waitingListener is a listener with a goroutine that waits for its peer.
type waitingListener struct {
	at       []string
	admitted chan *transfer.ReceivingConn
	err      chan error
}

func openListener(t *testing.T, ctx context.Context, own transfer.HostIdentity, peer transfer.Peer, hash string) waitingListener { //nolint:revive // t first
	t.Helper()
	listener, err := transfer.Open(own, peer, hash, transfer.PortRange{})
	if err != nil {
		t.Fatal(err)
	}
	o := waitingListener{at: []string{fmt.Sprintf("127.0.0.1:%d", listener.Port())}, admitted: make(chan *transfer.ReceivingConn, 1), err: make(chan error, 1)}
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(done)
		in, err := listener.WaitPeer(ctx)
		o.admitted <- in
		o.err <- err
	}()
	t.Cleanup(func() { cancel(); <-done })
	return o
}

func TestListenerAdmitsPeerOnce(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, peerA := ca.host("a", time.Hour)
	b, peerB := ca.host("b", time.Hour)
	thief, _ := ca.host("thief", time.Hour)
	again, _ := ca.host("a", time.Hour) // the host's name with another key
	_, peerOther := ca.host("other", time.Hour)
	foreign, _ := newAuthority(t).host("a", time.Hour)
	ticket := transfer.NewTicket()
	o := openListener(t, t.Context(), b, peerA, ticket.Hash())
	refused := func(what string, own transfer.HostIdentity, peer transfer.Peer, with transfer.Ticket) {
		t.Helper()
		if out, err := transfer.Dial(t.Context(), o.at, own, peer, with); err == nil {
			out.Close()
			t.Errorf("%s is admitted", what)
		}
	}
	refused("another host of the same authority", thief, peerB, ticket)
	refused("a host of that name with another key", again, peerB, ticket)
	refused("a host of another authority", foreign, peerB, ticket)
	refused("another ticket", a, peerB, transfer.NewTicket())
	if _, err := transfer.Dial(t.Context(), o.at, a, peerOther, ticket); !errors.Is(err, transfer.ErrWrongPeer) {
		t.Errorf("a listener of another host: %v", err)
	}
	out, err := transfer.Dial(t.Context(), o.at, a, peerB, ticket)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	in := <-o.admitted
	if err := <-o.err; err != nil || in == nil {
		t.Fatal(err)
	}
	defer in.Close()
	refused("the same ticket again", a, peerB, ticket)
	if conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", o.at[0]); !errors.Is(err, syscall.ECONNREFUSED) {
		if conn != nil {
			conn.Close()
		}
		t.Errorf("the port is open still: %v", err)
	}
}

// The hosts' clocks differ by a day: to one of them the other's certificate has expired or is not valid yet.
func TestTransferIgnoresHostClocks(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	ca := newAuthority(t) // two days old
	behind, peerBehind := ca.hostValid("behind", -3*day, -day)
	ahead, peerAhead := ca.hostValid("ahead", day, 2*day)
	for _, pair := range [][2]struct {
		own  transfer.HostIdentity
		peer transfer.Peer
	}{{{behind, peerBehind}, {ahead, peerAhead}}, {{ahead, peerAhead}, {behind, peerBehind}}} {
		from, to := pair[0], pair[1]
		ticket := transfer.NewTicket()
		o := openListener(t, t.Context(), to.own, from.peer, ticket.Hash())
		out, err := transfer.Dial(t.Context(), o.at, from.own, to.peer, ticket)
		if err != nil {
			t.Fatalf("from %s to %s: %v", from.peer.Host, to.peer.Host, err)
		}
		out.Close()
		in := <-o.admitted
		if err := <-o.err; err != nil || in == nil {
			t.Fatalf("from %s to %s: %v", from.peer.Host, to.peer.Host, err)
		}
		in.Close()
	}
}

func TestListenerClosesAfterTooManyWrongPeers(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	b, _ := ca.host("b", time.Hour)
	_, peerA := ca.host("a", time.Hour)
	o := openListener(t, t.Context(), b, peerA, transfer.NewTicket().Hash())
	for range 32 {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", o.at[0])
		if err != nil {
			break
		}
		conn.Close()
	}
	if err := <-o.err; !errors.Is(err, transfer.ErrPeerNotConnected) {
		t.Errorf("after 32 strangers: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	o = openListener(t, ctx, b, peerA, transfer.NewTicket().Hash())
	cancel(errors.New("taken back"))
	if err := <-o.err; err == nil || err.Error() != "taken back" {
		t.Errorf("cancelled: %v", err)
	}
}

// connectedPair returns the sender's and the receiver's end of a connection.
func connectedPair(t *testing.T) (*transfer.SendingConn, *transfer.ReceivingConn) {
	t.Helper()
	ca := newAuthority(t)
	a, peerA := ca.host("a", time.Hour)
	b, peerB := ca.host("b", time.Hour)
	ticket := transfer.NewTicket()
	o := openListener(t, t.Context(), b, peerA, ticket.Hash())
	out, err := transfer.Dial(t.Context(), o.at, a, peerB, ticket)
	if err != nil {
		t.Fatal(err)
	}
	in := <-o.admitted
	t.Cleanup(func() { out.Close(); in.Close() })
	return out, in
}

// receiveAndAnswer receives the file into dst as a host does, and answers the sender.
func receiveAndAnswer(ctx context.Context, in *transfer.ReceivingConn, dst transfer.Sink, room int64) (transfer.FileSum, error) {
	size, err := in.Size()
	var sum transfer.FileSum
	if err == nil {
		sum, err = in.Receive(ctx, dst, size, room, nil)
	}
	in.SendStillChecking()
	in.Answer(err)
	return sum, err
}

// writebackRecorder records the writeback calls before the sync.
type writebackRecorder struct {
	transfer.FileSink
	bytes           int64
	bytesBeforeSync int64
}

func (b *writebackRecorder) Writeback(at, n int64) {
	b.bytes += n
	b.FileSink.Writeback(at, n)
}

func (b *writebackRecorder) Sync() error {
	b.bytesBeforeSync = b.bytes
	return b.FileSink.Sync()
}

func TestReceivedFileIsWrittenBackBeforeSync(t *testing.T) {
	t.Parallel()
	out, in := connectedPair(t)
	const size = 40 << 20
	src, dst := newRandomFile(t, size), &writebackRecorder{FileSink: transfer.FileSink{File: newEmptyFile(t, "dst")}}
	done := startReceive(t.Context(), in, dst, size)
	if err := out.Send(t.Context(), transfer.FilePieces(src, size), size, nil, nil); err != nil || (<-done).err != nil {
		t.Fatal(err)
	}
	if dst.bytesBeforeSync < size*3/4 {
		t.Errorf("%d of %d MiB wait for the end", (size-dst.bytesBeforeSync)>>20, size>>20)
	}
}

type receiveResult struct {
	sum transfer.FileSum
	err error
}

func startReceive(ctx context.Context, in *transfer.ReceivingConn, dst transfer.Sink, room int64) <-chan receiveResult {
	done := make(chan receiveResult, 1)
	go func() {
		sum, err := receiveAndAnswer(ctx, in, dst, room)
		done <- receiveResult{sum, err}
	}()
	return done
}

func TestFileIsReceivedCompleteAndSparse(t *testing.T) {
	t.Parallel()
	out, in := connectedPair(t)
	src, dst := newRandomFile(t, 3<<20+17), newEmptyFile(t, "dst")
	const size = 300 << 20
	tail := []byte("the end of it")
	if _, err := src.WriteAt(tail, 200<<20); err != nil {
		t.Fatal(err)
	}
	if err := src.Truncate(size); err != nil {
		t.Fatal(err)
	}
	done := startReceive(t.Context(), in, transfer.FileSink{File: dst}, 16<<20)
	err := out.Send(t.Context(), transfer.FilePieces(src, size), size, nil, nil)
	got := <-done
	if err != nil || got.err != nil {
		t.Fatalf("sent %v, received %v", err, got.err)
	}
	if err := transfer.VerifyFile(t.Context(), dst, size, got.sum, nil); err != nil {
		t.Error(err)
	}
	was, _ := os.ReadFile(src.Name())
	if is, _ := os.ReadFile(dst.Name()); !bytes.Equal(was, is) || sha256.Sum256(was) != [32]byte(got.sum) {
		t.Error("the copy has other bytes, or another sum")
	}
	var stat syscall.Stat_t
	if err := syscall.Fstat(int(dst.Fd()), &stat); err != nil || stat.Blocks*512 > 8<<20 {
		t.Errorf("%d bytes are taken for 4 MiB of data, %v", stat.Blocks*512, err)
	}
}

func TestEmptyFileIsReceived(t *testing.T) {
	t.Parallel()
	out, in := connectedPair(t)
	src, dst := newRandomFile(t, 0), newEmptyFile(t, "dst")
	done := startReceive(t.Context(), in, transfer.FileSink{File: dst}, 0)
	if err := out.Send(t.Context(), transfer.FilePieces(src, 0), 0, nil, nil); err != nil || (<-done).err != nil {
		t.Error(err)
	}
}

func TestTransferIsRateLimited(t *testing.T) {
	t.Parallel()
	out, in := connectedPair(t)
	const size = 3 << 20
	src, dst := newRandomFile(t, size), newEmptyFile(t, "dst")
	done := startReceive(t.Context(), in, transfer.FileSink{File: dst}, size)
	began := time.Now()
	if err := out.Send(t.Context(), transfer.FilePieces(src, size), size, &transfer.RateLimit{Bytes: 4 << 20}, nil); err != nil || (<-done).err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 600*time.Millisecond {
		t.Errorf("3 MiB at 4 MiB/s took %s", took)
	}
}

// fullDisk is a file on a full disk.
type fullDisk struct{ transfer.FileSink }

func (fullDisk) WriteAt([]byte, int64) (int, error) { return 0, errors.New("no space left on device") }

func TestIncompleteTransferFailsForSenderAndReceiver(t *testing.T) {
	t.Parallel()
	const size = 5 << 20
	t.Run("more data than free space", func(t *testing.T) {
		t.Parallel()
		out, in := connectedPair(t)
		done := startReceive(t.Context(), in, transfer.FileSink{File: newEmptyFile(t, "dst")}, 2<<20)
		err := out.Send(t.Context(), transfer.FilePieces(newRandomFile(t, size), size), size, nil, nil)
		if got := <-done; got.err == nil || err == nil || !strings.Contains(err.Error(), "exceeds the free space") {
			t.Errorf("sent %v, received %v", err, got.err)
		}
	})
	t.Run("a full disk", func(t *testing.T) {
		t.Parallel()
		out, in := connectedPair(t)
		done := startReceive(t.Context(), in, fullDisk{transfer.FileSink{File: newEmptyFile(t, "dst")}}, size)
		err := out.Send(t.Context(), transfer.FilePieces(newRandomFile(t, size), size), size, nil, nil)
		if got := <-done; got.err == nil || err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("sent %v, received %v", err, got.err)
		}
	})
	for name, bad := range map[string][]byte{
		"a piece before the last one": {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 'a', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 'a'},
		"a piece after the end":       {0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 'a'},
		"a piece that is too long":    {0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255},
		"a negative offset":           {255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 'a'},
		"an early end":                {0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, in := connectedPair(t)
			done := startReceive(t.Context(), in, transfer.FileSink{File: newEmptyFile(t, "dst")}, size)
			_, err := out.Raw().Write(append([]byte{0, 0, 0, 0, 0, 0, 0, 3}, bad...))
			if got := <-done; err != nil || got.err == nil || !strings.Contains(got.err.Error(), "invalid data") {
				t.Errorf("sent %v, received %v", err, got.err)
			}
		})
	}
	t.Run("holes of unbounded size", func(t *testing.T) {
		t.Parallel()
		out, in := connectedPair(t)
		// The announced size is 4 EiB. A hole of that size would take years to hash.
		if _, err := out.Raw().Write([]byte{64, 0, 0, 0, 0, 0, 0, 0}); err != nil {
			t.Fatal(err)
		}
		if size, err := in.Size(); err == nil || !strings.Contains(err.Error(), "longer than any file") {
			t.Errorf("%d bytes are taken, %v", size, err)
		}
	})
	t.Run("confirmed before it was sent", func(t *testing.T) {
		t.Parallel()
		out, in := connectedPair(t)
		in.Answer(nil)
		if err := out.Send(t.Context(), transfer.FilePieces(newRandomFile(t, size), size), size, nil, nil); err == nil {
			t.Error("half a file counts as complete")
		}
	})
	t.Run("cancelled by the sender", func(t *testing.T) {
		t.Parallel()
		out, in := connectedPair(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		done := startReceive(t.Context(), in, transfer.FileSink{File: newEmptyFile(t, "dst")}, size)
		err := out.Send(ctx, func(ctx context.Context, do func(int64, []byte, int64) error) error {
			cancel(errors.New("taken back"))
			return transfer.FilePieces(newRandomFile(t, size), size)(ctx, do)
		}, size, nil, nil)
		if got := <-done; !errors.Is(got.err, transfer.ErrConnectionLost) || err == nil || err.Error() != "taken back" {
			t.Errorf("sent %v, received %v", err, got.err)
		}
	})
	t.Run("cancelled by the receiver", func(t *testing.T) {
		t.Parallel()
		out, in := connectedPair(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		done := startReceive(ctx, in, transfer.FileSink{File: newEmptyFile(t, "dst")}, size)
		err := out.Send(t.Context(), func(ctx context.Context, do func(int64, []byte, int64) error) error {
			cancel(errors.New("taken back"))
			return transfer.FilePieces(newRandomFile(t, size), size)(ctx, do)
		}, size, nil, nil)
		if got := <-done; got.err == nil || got.err.Error() != "taken back" || err == nil {
			t.Errorf("sent %v, received %v", err, got.err)
		}
	})
}

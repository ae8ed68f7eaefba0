//go:build linux

package bench

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"quantix/agent/transfer"
	"quantix/internal/fleet"
	"quantix/internal/testkit/goals"
)

const (
	transferBytes = 1 << 30
	transferShare = 0.7 // minimum share of the reference's rate
)

// BenchmarkTransfer measures the transfer of an image of 1 GiB of random bytes from one file to another over loopback.
// Agents send the image with a checksum over TLS, with the certificates of two hosts. The reference is `cat | nc`: a
// pipe and a plain TCP connection in pieces of 64 KiB, into a file that is synced. The two run three times each,
// alternating, and the best time counts.
func BenchmarkTransfer(b *testing.B) {
	dir := b.TempDir()
	src := filepath.Join(dir, "image.raw")
	f, err := os.Create(src)
	if err == nil {
		_, err = io.CopyN(f, rand.Reader, transferBytes)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	own := newHosts(b)
	b.ResetTimer()
	for range b.N {
		beside, ours := time.Duration(1<<62), time.Duration(1<<62)
		for range 3 {
			beside = min(beside, catInto(b, src, filepath.Join(dir, "plain")))
			ours = min(ours, own.sendFile(b, f, filepath.Join(dir, "sent")))
		}
		share := beside.Seconds() / ours.Seconds()
		rate := func(d time.Duration) float64 { return transferBytes / (1 << 20) / d.Seconds() }
		b.ReportMetric(rate(ours), "MiB/s")
		b.ReportMetric(rate(beside), "plain-MiB/s")
		goals.Transfer.Record(b, share >= transferShare, fmt.Sprintf("%.0f MiB/s", rate(ours)), fmt.Sprintf("cat to nc, synced: %.0f MiB/s", rate(beside)), share)
	}
}

// catInto does what `cat | nc` to `nc -l >` does, followed by a sync.
func catInto(b *testing.B, src, to string) time.Duration {
	b.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a listen on loopback returns at once
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	began := time.Now()
	done := make(chan error, 1)
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			done <- err
			return
		}
		defer conn.Close()
		out, err := os.Create(to)
		if err == nil {
			_, err = copyLikeNC(out, conn)
		}
		if err == nil {
			err = out.Sync()
		}
		out.Close()
		done <- err
	}()
	conn, err := (&net.Dialer{}).DialContext(b.Context(), "tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	cat := exec.CommandContext(b.Context(), "cat", src)
	pipe, err := cat.StdoutPipe()
	if err == nil {
		err = cat.Start()
	}
	if err == nil {
		_, err = copyLikeNC(conn, pipe)
	}
	if err == nil {
		err = cat.Wait()
	}
	conn.Close()
	if got := <-done; err != nil || got != nil {
		b.Fatal(err, got)
	}
	took := time.Since(began)
	os.Remove(to)
	return took
}

// copyLikeNC copies with read and write, as nc does; io.Copy would let the kernel move the bytes.
func copyLikeNC(to io.Writer, from io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, 64<<10))
}

// transferHosts are two hosts whose certificates are from one authority.
type transferHosts struct {
	self [2]transfer.HostIdentity
	peer [2]transfer.Peer
}

func newHosts(b *testing.B) (h transferHosts) {
	b.Helper()
	sign := func(name string, by *x509.Certificate, with *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			b.Fatal(err)
		}
		form := &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			BasicConstraintsValid: true, IsCA: by == nil, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}
		if by == nil {
			by, with = form, key
		}
		der, err := x509.CreateCertificate(rand.Reader, form, by, &key.PublicKey, with)
		if err != nil {
			b.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			b.Fatal(err)
		}
		return cert, key
	}
	ca, caKey := sign("authority", nil, nil)
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	for i := range h.self {
		name := fmt.Sprintf("host-%d", i+1)
		cert, key := sign(name, ca, caKey)
		sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
		h.self[i] = transfer.HostIdentity{Certificate: tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}, CA: pool}
		h.peer[i] = transfer.Peer{Host: fleet.HostID(name), KeyHash: hex.EncodeToString(sum[:])}
	}
	return h
}

// sendFile transfers the file in the same way as agents do.
func (h transferHosts) sendFile(b *testing.B, src *os.File, to string) time.Duration {
	b.Helper()
	began := time.Now()
	ticket := transfer.NewTicket()
	listener, err := transfer.Open(h.self[1], h.peer[0], ticket.Hash(), transfer.PortRange{})
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- receiveTransfer(b.Context(), listener, to) }()
	out, err := transfer.Dial(b.Context(), []string{fmt.Sprintf("127.0.0.1:%d", listener.Port())}, h.self[0], h.peer[1], ticket)
	if err == nil {
		err = out.Send(b.Context(), transfer.FilePieces(src, transferBytes), transferBytes, nil, nil)
	}
	if got := <-done; err != nil || got != nil {
		b.Fatal(err, got)
	}
	took := time.Since(began)
	os.Remove(to)
	return took
}

func receiveTransfer(ctx context.Context, listener *transfer.Listener, to string) error {
	in, err := listener.WaitPeer(ctx)
	if err != nil {
		return err
	}
	dst, err := os.Create(to)
	if err != nil {
		return err
	}
	defer dst.Close()
	size, err := in.Size()
	if err == nil {
		_, err = in.Receive(ctx, transfer.FileSink{File: dst}, size, size, nil)
	}
	in.Answer(err)
	return err
}

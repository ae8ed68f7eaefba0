package libvirt

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"slices"

	"quantix/internal/fleet"
)

const (
	checkpointBytes         = 4 << 10
	checkpointIntervalBytes = 64 << 20 // a power failure of the host loses at most this many bytes of the upload
)

// uploadChecksum is the running checksum of an upload. hash is nil if the upload has no checksum.
type uploadChecksum struct {
	algorithm, want string
	hash            hash.Hash
}

// resumableUpload is the unfinished file of an upload that can be resumed. The file's head is stored after the end of
// the file. Two alternating checkpoints follow, so that a torn write leaves the other checkpoint intact.
type resumableUpload struct {
	withheldHeadFile
	pool             string // the pool's name, for errors
	upload           fleet.UploadID
	total            int64
	sum              uploadChecksum
	checkpointNumber int64
	checkpointed     int64      // the size in the newest checkpoint, written or being written
	writing          chan error // not nil while a checkpoint is being written in the background
	settled          bool       // the file already has its head and its final size
}

// checkpoint records how much of the upload is on the storage, and the state of the checksum.
type checkpoint struct {
	Upload fleet.UploadID `json:"upload"`
	Total  int64          `json:"total"`
	Size   int64          `json:"size"`
	Turn   int64          `json:"turn"`
	Sum    []byte         `json:"sum,omitempty"` // the hash's state at this size
}

// newResumable returns the state of a new upload.
func newResumable(f *os.File, pool string, o fleet.VolumeParams, sum uploadChecksum) *resumableUpload {
	return &resumableUpload{withheldHeadFile: withheldHeadFile{f: f}, pool: pool, upload: o.Upload, total: o.SizeBytes, sum: sum, checkpointed: -1}
}

// completeResumable returns a complete file that only needs its final name.
func completeResumable(f *os.File, o fleet.VolumeParams) *resumableUpload {
	return &resumableUpload{withheldHeadFile: withheldHeadFile{f: f, size: o.SizeBytes}, upload: o.Upload, total: o.SizeBytes, settled: true}
}

// readResumable returns the progress of the upload's unfinished file. It returns nil if the file belongs to another
// upload.
func readResumable(f *os.File, pool string, o fleet.VolumeParams, sum uploadChecksum) (*resumableUpload, error) {
	p := newResumable(f, pool, o, sum)
	var newest checkpoint
	found := false
	for turn := range int64(2) {
		raw := make([]byte, checkpointBytes)
		if _, err := f.ReadAt(raw, p.checkpointAt(turn)); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if at, ok := parseCheckpoint(raw); ok && at.Upload == o.Upload && at.Total == o.SizeBytes && at.Size >= 0 && at.Size <= at.Total && (!found || at.Turn > newest.Turn) {
			newest, found = at, true
		}
	}
	if !found {
		return nil, nil
	}
	if sum.hash != nil {
		state, ok := sum.hash.(encoding.BinaryUnmarshaler)
		if !ok {
			return nil, nil
		}
		if err := state.UnmarshalBinary(newest.Sum); err != nil {
			return nil, fmt.Errorf("resume the upload's checksum: %w", err)
		}
	}
	p.head = make([]byte, min(newest.Size, withheldHeadBytes))
	if _, err := f.ReadAt(p.head, p.total); err != nil {
		return nil, fmt.Errorf("read the head of the upload: %w", err)
	}
	p.size, p.synced, p.checkpointed, p.checkpointNumber = newest.Size, newest.Size, newest.Size, newest.Turn+1
	return p, nil
}

// checkpointAt returns the offset of the checkpoint with this number.
func (p *resumableUpload) checkpointAt(turn int64) int64 {
	return p.total + withheldHeadBytes + turn%2*checkpointBytes
}

// parseCheckpoint parses a checkpoint. ok is false if the CRC-32 does not match.
func parseCheckpoint(raw []byte) (f checkpoint, ok bool) {
	line, _, ended := bytes.Cut(raw, []byte{'\n'})
	if !ended || len(line) < 9 {
		return f, false
	}
	return f, string(line[:8]) == fmt.Sprintf("%08x", crc32.ChecksumIEEE(line[9:])) && json.Unmarshal(line[9:], &f) == nil
}

// Size implements upload.File.
func (p *resumableUpload) Size() int64 { return p.size }

// Write implements upload.File. It writes checkpoints in the background, so that the sender does not wait for the
// storage.
func (p *resumableUpload) Write(b []byte) (int, error) {
	p.synced = p.size // suppresses the sync of withheldHeadFile, because Keep syncs
	n, err := p.withheldHeadFile.Write(b)
	if p.sum.hash != nil {
		p.sum.hash.Write(b[:n])
	}
	if err != nil || p.size-p.checkpointed < checkpointIntervalBytes {
		return n, translateNoSpace(p.pool, err)
	}
	select {
	case err := <-p.writing:
		p.writing = nil
		if err != nil {
			return n, err
		}
	default:
		if p.writing != nil {
			return n, nil // the storage still writes the previous checkpoint
		}
	}
	put, err := p.newCheckpoint()
	if err != nil {
		return n, err
	}
	done := make(chan error, 1)
	go func() { done <- put() }()
	p.writing = done
	return n, nil
}

// Keep implements upload.File.
func (p *resumableUpload) Keep() error {
	if err := p.waitCheckpoint(); err != nil || p.checkpointed == p.size {
		return err
	}
	put, err := p.newCheckpoint()
	if err == nil {
		err = put()
	}
	if err != nil {
		p.checkpointed = -1
		return translateNoSpace(p.pool, fmt.Errorf("sync the upload: %w", err))
	}
	return nil
}

// waitCheckpoint waits for the checkpoint that is being written.
func (p *resumableUpload) waitCheckpoint() error {
	if p.writing == nil {
		return nil
	}
	err := <-p.writing
	p.writing = nil
	return err
}

// newCheckpoint returns a function that writes a checkpoint of the current size. The function syncs the data before it
// writes the checkpoint.
func (p *resumableUpload) newCheckpoint() (put func() error, err error) {
	at := checkpoint{Upload: p.upload, Total: p.total, Size: p.size, Turn: p.checkpointNumber}
	if state, ok := p.sum.hash.(encoding.BinaryMarshaler); ok {
		if at.Sum, err = state.MarshalBinary(); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(at)
	if err != nil {
		return nil, err
	}
	line := fmt.Appendf(nil, "%08x %s\n", crc32.ChecksumIEEE(text), text)
	where, head := p.checkpointAt(p.checkpointNumber), slices.Clip(p.head)
	p.checkpointNumber, p.checkpointed = p.checkpointNumber+1, p.size
	return func() error {
		if _, err := p.f.WriteAt(head, p.total); err != nil {
			return err
		}
		if err := p.f.Sync(); err != nil {
			return err
		}
		if _, err := p.f.WriteAt(append(line, make([]byte, checkpointBytes-len(line))...), where); err != nil {
			return err
		}
		return p.f.Sync()
	}, nil
}

// close waits for the running checkpoint and closes the file.
func (p *resumableUpload) close() error { return errors.Join(p.waitCheckpoint(), p.f.Close()) }

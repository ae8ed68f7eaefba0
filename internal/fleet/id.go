// Package fleet is the vocabulary of Quantix: virtual machines, hosts, pools, networks, projects, users, jobs,
// their states, the actions they allow, and errors. It imports the standard library only; every other package speaks in its types.
package fleet

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// Identifiers are UUIDs in lower-case text form, one type a noun, so that no two nouns can be mistaken for each other.
// A VMID is also the libvirt domain's UUID.
type (
	VMID        string
	HostID      string
	PoolID      string
	NetworkID   string
	ProjectID   string
	UserID      string
	JobID       string
	TokenID     string
	JoinTokenID string
	ConsoleID   string
)

// NewID returns a version 7 UUID: unique, and ordered by its time of birth to the millisecond.
func NewID[T ~string]() T {
	var b [16]byte
	rand.Read(b[:])
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(time.Now().UnixMilli()))
	copy(b[:6], ms[2:])
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	var out [36]byte
	hex.Encode(out[0:8], b[0:4])
	hex.Encode(out[9:13], b[4:6])
	hex.Encode(out[14:18], b[6:8])
	hex.Encode(out[19:23], b[8:10])
	hex.Encode(out[24:36], b[10:16])
	out[8], out[13], out[18], out[23] = '-', '-', '-', '-'
	return T(out[:])
}

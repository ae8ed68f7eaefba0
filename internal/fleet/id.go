// Package fleet is the vocabulary of Quantix: virtual machines, hosts, pools, networks, projects, users, jobs,
// their states, the actions they allow, and errors. It imports the standard library only; every other package speaks in its types.
package fleet

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync"
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
	TaskID      string
	JobID       string
	TokenID     string
	JoinTokenID string
	PairID      string
	ViewID      string
	PlanID      string

	SecurityGroupID string
	CustomizationID string
	ImageID         string
	ImageVersionID  string
	StartImageID    string

	TemplateID        string
	TemplateVersionID string
)

// born orders the ids that this process makes within one millisecond.
var born struct {
	mu   sync.Mutex
	last uint64 // milliseconds since 1970 << 12 | count within the millisecond
}

// NewID returns a version 7 UUID: unique, and ordered by its time of birth; those of one process by their order in it.
func NewID[T ~string]() T {
	var b [16]byte
	rand.Read(b[:])
	born.mu.Lock()
	born.last = max(born.last+1, uint64(time.Now().UnixMilli())<<12)
	at := born.last
	born.mu.Unlock()
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], at>>12)
	copy(b[:6], ms[2:])
	b[6] = byte(at>>8)&0x0f | 0x70
	b[7] = byte(at)
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

// IsID reports whether s has the form of an identifier: a UUID in lower-case text form, of any version.
func IsID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case (c < '0' || c > '9') && (c < 'a' || c > 'f'):
			return false
		}
	}
	return true
}

// ProjectMACs is the beginning of the MAC addresses that a project's people may choose: of those for local use, and a different
// one for each project but for a chance of one in 16 million.
func ProjectMACs(id ProjectID) string {
	sum := sha256.Sum256([]byte(id))
	return fmt.Sprintf("02:%02x:%02x:%02x:", sum[0], sum[1], sum[2])
}

package domxml

import (
	"crypto/sha256"
	"fmt"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// DiskSecretUUID returns the UUID of the libvirt secret with an encrypted disk's passphrase. The secret is private: the
// host generates the passphrase, and libvirt's API never returns it. The UUID derives from the volume, so no record of
// the UUID is necessary.
func DiskSecretUUID(ref fleet.Volref) fleet.VMID {
	sum := sha256.Sum256([]byte("quantix disk " + string(ref.PoolID) + "/" + ref.Volume))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // UUID version 8, which no other generator uses
	return fleet.VMID(fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]))
}

func writeEncryption(x *libvirtxml.DomainDisk, s fleet.Disk) {
	if x.Source == nil {
		return
	}
	source := *x.Source
	if source.Encryption = nil; s.Encryption != "" {
		source.Encryption = &libvirtxml.DomainDiskEncryption{
			Format: s.Encryption, Secrets: []libvirtxml.DomainDiskSecret{{Type: "passphrase", UUID: string(DiskSecretUUID(s.Ref()))}},
		}
	}
	x.Source, x.Encryption = &source, nil
}

func readEncryption(x *libvirtxml.DomainDisk, s *fleet.Disk) {
	e := x.Encryption
	if x.Source != nil && x.Source.Encryption != nil {
		e = x.Source.Encryption
	}
	if s.Encryption = ""; e != nil {
		s.Encryption = e.Format
	}
}

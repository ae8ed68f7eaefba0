package storage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/hostfile"
)

// Locations maps the names of the host's pools to their directories, or to the address prefix of block pools.
type Locations map[string]poolLocation

// poolLocation is the directory of a file pool or the address prefix of a block pool.
type poolLocation struct {
	Path   string
	Blocks *blockVolumeMapping // nil: a file pool
}

// volumeLocation returns the volume's path or address. It is empty if only libvirt knows the path.
func (d poolLocation) volumeLocation(volume string) string {
	switch {
	case d.Path == "":
		return ""
	case d.Blocks != nil:
		if below := d.Blocks.suffixOf(volume); below != "" {
			return d.Path + below
		}
		return ""
	}
	return filepath.Join(d.Path, volume)
}

// Path returns the file's path for a pool and volume name of a definition. It returns other paths unchanged.
func (d Locations) Path(path string) string {
	rest, byPool := strings.CutPrefix(path, domxml.VolumeRefPrefix)
	pool, volume, _ := strings.Cut(rest, "/")
	if at := d[pool].volumeLocation(volume); byPool && at != "" {
		return at
	}
	return path
}

// UnlistedPool returns the pool name in a definition's volume reference if the pool is not listed. It is empty for a
// listed pool and for plain paths.
func (d Locations) UnlistedPool(path string) string {
	rest, byPool := strings.CutPrefix(path, domxml.VolumeRefPrefix)
	pool, _, _ := strings.Cut(rest, "/")
	if _, known := d[pool]; byPool && !known {
		return pool
	}
	return ""
}

// poolLocationOf returns the directory or address prefix in libvirt's definition of a pool.
func poolLocationOf(x libvirtxml.StoragePool) poolLocation {
	if kind := blockVolumeMappingByPoolType(x.Type); kind != nil {
		return poolLocation{kind.prefix(x), kind}
	}
	if x.Target != nil {
		return poolLocation{Path: x.Target.Path}
	}
	return poolLocation{}
}

// ListLocations reads the directories of all pools from libvirt.
func ListLocations(l *golibvirt.Libvirt) (Locations, error) {
	refs, _, err := l.ConnectListAllStoragePools(1, 0)
	if err != nil {
		return nil, err
	}
	out := make(Locations, len(refs))
	for _, ref := range refs {
		text, err := l.StoragePoolGetXMLDesc(ref, 0)
		if conn.IsLibvirtCode(err, golibvirt.ErrNoStoragePool) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var x libvirtxml.StoragePool
		if err := x.Unmarshal(text); err != nil {
			return nil, err
		}
		out[ref.Name] = poolLocationOf(x)
	}
	return out, nil
}

// DefinitionDir is the directory of libvirt's pool definitions.
const DefinitionDir = "/etc/libvirt/storage"

// DefinedLocations reads the pools from libvirt's definition files.
func DefinedLocations(dir string) (Locations, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.xml"))
	if err != nil {
		return nil, err
	}
	out := Locations{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if hostfile.IsFileMissingError(err) {
			continue // libvirt has undefined the pool since
		}
		var x libvirtxml.StoragePool
		if err == nil {
			err = x.Unmarshal(string(text))
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", f, err)
		}
		out[x.Name] = poolLocationOf(x)
	}
	return out, nil
}

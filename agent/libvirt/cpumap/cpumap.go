// Package cpumap reads which CPU features a host lacks for a CPU model, from libvirt's domain capabilities and CPU map.
package cpumap

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// dir is libvirt's directory of the features of CPU models.
const dir = "/usr/share/libvirt/cpu_map"

// maxCPUMapFile is the maximum size of a file of dir, in bytes. A model has about 5 KiB.
const maxCPUMapFile = 256 << 10

// Gaps returns the CPU models that guests of the domain capabilities cannot have, each with the features that
// the host lacks. libvirt names these features from version 10.3 on. For an older libvirt they are those of the model in
// the CPU map that the host's own model (host-model) does not have. A model that the map does not describe has no
// features. readMap returns a file of the map by its name.
func Gaps(x libvirtxml.DomainCaps, readMap func(file string) ([]byte, error)) (out []fleet.CPUModelGap) {
	if x.CPU == nil {
		return nil
	}
	blockers, unusable := map[string][]string{}, []string{}
	for _, mode := range x.CPU.Modes {
		if mode.Name != "custom" {
			continue
		}
		for _, m := range mode.Models {
			if m.Usable == "no" {
				unusable = append(unusable, m.Name)
			}
		}
		for _, b := range mode.Blockers {
			for _, f := range b.Features {
				blockers[b.Model] = append(blockers[b.Model], f.Name)
			}
		}
	}
	slices.Sort(unusable)
	models := cpuMap{arch: cpuMapArch(x.Arch), read: readMap}
	host := models.hostFeatures(x)
	for _, name := range slices.Compact(unusable) {
		missing := blockers[name]
		if missing == nil && host != nil {
			for f := range models.features(name, 0) {
				if !host[f] {
					missing = append(missing, f)
				}
			}
		}
		slices.Sort(missing)
		missing = slices.Compact(missing)
		out = append(out, fleet.CPUModelGap{Model: name, Missing: missing[:min(len(missing), fleet.MaxMissingFeatures)]})
	}
	return out[:min(len(out), fleet.MaxCPUModelGaps)]
}

// cpuMap reads the features of CPU models from libvirt's CPU map.
type cpuMap struct {
	arch string // the beginning of the names of the map's files; empty: the map does not describe the architecture
	read func(file string) ([]byte, error)
}

// cpuMapArch returns the beginning of the names of an architecture's files in the CPU map. Only x86 models have features
// there.
func cpuMapArch(arch string) string {
	if arch == "x86_64" || arch == "i686" {
		return "x86_"
	}
	return ""
}

// cpuMapModel is a model in a file of the CPU map. Older files name a parent model.
type cpuMapModel struct {
	Name     string `xml:"name,attr"`
	Features []struct {
		Name    string `xml:"name,attr"`
		Removed string `xml:"removed,attr"` // "yes": the model had the feature before QEMU removed it
	} `xml:"feature"`
	Parents []struct {
		Name string `xml:"name,attr"`
	} `xml:"model"`
}

var cpuModelName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// maxCPUModelParents is the maximum number of parents of a model, one above the other.
const maxCPUModelParents = 16

// features returns the features of a model, with those of its parents. It is empty for a model that the map does not
// describe.
func (m cpuMap) features(model string, depth int) map[string]bool {
	out := map[string]bool{}
	if m.arch == "" || depth > maxCPUModelParents || !cpuModelName.MatchString(model) {
		return out
	}
	text, err := m.read(m.arch + model + ".xml")
	var file struct {
		Models []cpuMapModel `xml:"model"`
	}
	if err != nil || xml.Unmarshal(text, &file) != nil {
		return out
	}
	for _, of := range file.Models {
		if of.Name != model {
			continue
		}
		for _, p := range of.Parents {
			for f := range m.features(p.Name, depth+1) {
				out[f] = true
			}
		}
		for _, f := range of.Features {
			if f.Removed != "yes" {
				out[f.Name] = true
			}
		}
	}
	return out
}

// hostFeatures returns the features that guests can have: those of host-model. It returns nil if the map does not
// describe that model.
func (m cpuMap) hostFeatures(x libvirtxml.DomainCaps) map[string]bool {
	for _, mode := range x.CPU.Modes {
		if mode.Name != "host-model" || len(mode.Models) == 0 {
			continue
		}
		out := m.features(strings.TrimSpace(mode.Models[0].Name), 0)
		if len(out) == 0 {
			return nil
		}
		for _, f := range mode.Features {
			out[f.Name] = f.Policy != "disable" && f.Policy != "forbid"
		}
		return out
	}
	return nil
}

// ReadFile reads a file of the host's CPU map.
func ReadFile(file string) ([]byte, error) {
	f, err := os.Open(filepath.Join(dir, file))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() > maxCPUMapFile {
		return nil, os.ErrInvalid
	}
	text := make([]byte, info.Size())
	_, err = f.ReadAt(text, 0)
	return text, err
}

package doctor

import (
	"io/fs"
	"slices"
	"strings"
)

// packageFamily is the kind of package manager of a system.
type packageFamily int

const (
	otherSystem packageFamily = iota
	debian
	rpm
	brew
)

func (m *machine) packageFamily() packageFamily {
	if m.goos == "darwin" {
		return brew
	}
	release, err := fs.ReadFile(m.root, "etc/os-release")
	if err != nil {
		return otherSystem
	}
	for line := range strings.SplitSeq(string(release), "\n") {
		key, value, _ := strings.Cut(line, "=")
		if key != "ID" && key != "ID_LIKE" {
			continue
		}
		for word := range strings.FieldsSeq(strings.Trim(value, `"'`)) {
			switch word {
			case "debian", "ubuntu":
				return debian
			case "fedora", "rhel", "centos":
				return rpm
			}
		}
	}
	return otherSystem
}

// fixOf returns the command that installs a requirement, or an instruction if no command does.
func (m *machine) fixOf(n requirement) string {
	if n.fix != "" {
		return n.fix
	}
	if command := m.installCommand([]requirement{n}); command != "" {
		return command
	}
	if m.packageFamily() == brew {
		return "this needs Linux"
	}
	return "install what Debian calls " + strings.Join(n.debian, " ")
}

// installCommand returns the command that installs all packages of the missing requirements; empty if no package helps.
func (m *machine) installCommand(missing []requirement) string {
	f := m.packageFamily()
	packages := packagesOf(f, missing)
	if len(packages) == 0 {
		return ""
	}
	return strings.Join(append(slices.Clone(installers[f]), packages...), " ")
}

var installers = map[packageFamily][]string{
	debian: {"apt-get", "install", "-y", "--no-install-recommends"},
	rpm:    {"dnf", "install", "-y"},
	brew:   {"brew", "install"},
}

// packagesOf returns the packages of the missing requirements, each once.
func packagesOf(f packageFamily, missing []requirement) []string {
	var packages []string
	for _, n := range missing {
		for _, name := range map[packageFamily][]string{debian: n.debian, rpm: n.rpm, brew: n.brew}[f] {
			if !slices.Contains(packages, name) {
				packages = append(packages, name)
			}
		}
	}
	return packages
}

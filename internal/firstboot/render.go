package firstboot

import (
	"fmt"
	"strings"

	"quantix/internal/fleet"
)

// GuestInstance identifies a guest to its first-boot software.
type GuestInstance struct {
	ID     fleet.VMID
	Name   string
	Number int // see fleet.VMFirstBoot
}

// RenderFiles returns the guest's files by name. For cloud-init these are the files of the NoCloud data source.
func RenderFiles(f fleet.FirstBoot, to GuestInstance) (map[string][]byte, error) {
	switch f.Kind {
	case fleet.CloudInit, fleet.CloudConfig:
		return cloudInitFiles(f, to)
	case fleet.Ignition:
		return map[string][]byte{"config.ign": []byte(f.UserData)}, nil
	case fleet.Sysprep: // Windows Setup and sysprep look for different file names
		return map[string][]byte{"Autounattend.xml": []byte(f.UserData), "unattend.xml": []byte(f.UserData)}, nil
	}
	return nil, fmt.Errorf("unknown first-boot kind %q", f.Kind)
}

type metaData struct {
	InstanceID string `yaml:"instance-id"`
	Hostname   string `yaml:"local-hostname"`
}

func cloudInitFiles(f fleet.FirstBoot, to GuestInstance) (map[string][]byte, error) {
	meta := metaData{fmt.Sprintf("%s-%d", to.ID, to.Number), to.Name}
	userData, network := f.UserData, f.NetworkConfig
	if f.Kind == fleet.CloudInit {
		if f.CloudInit == nil {
			return nil, fmt.Errorf("the first-boot data of kind %q is missing", f.Kind)
		}
		if f.CloudInit.Hostname != "" {
			meta.Hostname = f.CloudInit.Hostname
		}
		text, err := writeYAML(userDataOf(*f.CloudInit))
		if err != nil {
			return nil, err
		}
		userData = cloudHead + "\n" + text
		if network, err = networkConfigOf(f.CloudInit.Network); err != nil {
			return nil, err
		}
	}
	metaText, err := writeYAML(meta)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{"meta-data": []byte(metaText), "user-data": []byte(userData)}
	if network != "" {
		out["network-config"] = []byte(network)
	}
	return out, nil
}

type userData struct {
	FQDN     string `yaml:"fqdn,omitempty"`
	Hosts    bool   `yaml:"manage_etc_hosts"`
	Timezone string `yaml:"timezone,omitempty"`
	Locale   string `yaml:"locale,omitempty"`
	Users    []any  `yaml:"users,omitempty"` // "default" for the image's default user, a userEntry for every other user
	// The keys belong to the image's default user, and so does the password below.
	Keys       []string    `yaml:"ssh_authorized_keys,omitempty"`
	Hash       string      `yaml:"password,omitempty"`
	ChPasswd   *chPasswd   `yaml:"chpasswd,omitempty"`
	SSHPwAuth  bool        `yaml:"ssh_pwauth"`
	Update     bool        `yaml:"package_update,omitempty"`
	Upgrade    bool        `yaml:"package_upgrade,omitempty"`
	Packages   []string    `yaml:"packages,omitempty"`
	WriteFiles []fileEntry `yaml:"write_files,omitempty"`
	Run        []string    `yaml:"runcmd,omitempty"`
}

type userEntry struct {
	Name   string   `yaml:"name"`
	Keys   []string `yaml:"ssh_authorized_keys,omitempty"`
	Hash   string   `yaml:"hashed_passwd,omitempty"`
	Locked bool     `yaml:"lock_passwd"`
	Sudo   string   `yaml:"sudo,omitempty"`
	Groups []string `yaml:"groups,omitempty"`
	Shell  string   `yaml:"shell,omitempty"`
}

type chPasswd struct {
	Expire bool `yaml:"expire"`
}

type fileEntry struct {
	Path    string `yaml:"path"`
	Content string `yaml:"content"`
	Mode    string `yaml:"permissions,omitempty"`
	Owner   string `yaml:"owner,omitempty"`
}

func userDataOf(f fleet.CloudInitForm) userData {
	out := userData{
		Hosts: true, Timezone: f.Timezone, Locale: f.Locale, SSHPwAuth: f.SSHPassword,
		Update: len(f.Packages) > 0 || f.Upgrade, Upgrade: f.Upgrade, Packages: f.Packages, Run: f.Run,
	}
	if strings.Contains(f.Hostname, ".") {
		out.FQDN = f.Hostname
	}
	for _, u := range f.Users {
		if u.Name == "" {
			out.addDefaultUser(u, len(f.Users) > 1)
			continue
		}
		line := userEntry{Name: u.Name, Keys: u.SSHKeys, Hash: u.PasswordHash, Locked: u.PasswordHash == "", Groups: u.Groups, Shell: u.Shell}
		if line.Shell == "" {
			line.Shell = "/bin/bash"
		}
		if u.Sudo {
			line.Sudo = "ALL=(ALL) NOPASSWD:ALL"
		}
		out.Users = append(out.Users, line)
	}
	for _, w := range f.Files {
		out.WriteFiles = append(out.WriteFiles, fileEntry(w))
	}
	return out
}

// addDefaultUser adds the image's default user. If there are other users, cloud-init creates the default user only if the
// list contains "default".
func (out *userData) addDefaultUser(u fleet.FirstUser, others bool) {
	if others {
		out.Users = append(out.Users, "default")
	}
	out.Keys = u.SSHKeys
	if out.Hash = u.PasswordHash; out.Hash != "" {
		out.ChPasswd = &chPasswd{Expire: false}
	}
}

type networkConfig struct {
	Version   int                      `yaml:"version"`
	Ethernets map[string]ethernetEntry `yaml:"ethernets"`
}

type ethernetEntry struct {
	Match       map[string]string `yaml:"match"`
	SetName     string            `yaml:"set-name"`
	DHCP        bool              `yaml:"dhcp4"`
	Addresses   []string          `yaml:"addresses,omitempty"`
	Routes      []routeEntry      `yaml:"routes,omitempty"`
	Nameservers *nameserversEntry `yaml:"nameservers,omitempty"`
}

type routeEntry struct {
	To  string `yaml:"to"`
	Via string `yaml:"via"`
}

type nameserversEntry struct {
	Addresses []string `yaml:"addresses,omitempty"`
	Search    []string `yaml:"search,omitempty"`
}

// networkConfigOf returns the network-config for the NICs; empty if no NIC has a MAC address.
func networkConfigOf(nics []fleet.FirstBootNIC) (string, error) {
	out := networkConfig{2, map[string]ethernetEntry{}}
	for i, n := range nics {
		if n.MAC == "" {
			continue
		}
		name := fmt.Sprintf("eth%d", i)
		nic := ethernetEntry{Match: map[string]string{"macaddress": n.MAC}, SetName: name, DHCP: len(n.Addresses) == 0, Addresses: n.Addresses}
		for _, g := range n.Gateways {
			to := "0.0.0.0/0"
			if strings.Contains(g, ":") {
				to = "::/0"
			}
			nic.Routes = append(nic.Routes, routeEntry{to, g})
		}
		if len(n.DNS) > 0 || len(n.Search) > 0 {
			nic.Nameservers = &nameserversEntry{n.DNS, n.Search}
		}
		out.Ethernets[name] = nic
	}
	if len(out.Ethernets) == 0 {
		return "", nil
	}
	return writeYAML(out)
}

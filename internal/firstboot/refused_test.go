package firstboot_test

import (
	"errors"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

func errorMessage(err error) string {
	var all []string
	if e, ok := errors.AsType[*fleet.Error](err); ok {
		for _, f := range e.Fields {
			all = append(all, f.Field+": "+f.Message)
		}
	}
	return strings.Join(all, "\n")
}

type refusedCase struct {
	what    string
	f       fleet.FirstBoot
	field   string
	message string
}

func withUser(u fleet.FirstUser) fleet.FirstBoot {
	return withForm(fleet.CloudInitForm{Users: []fleet.FirstUser{u}})
}

func withNIC(n fleet.FirstBootNIC) fleet.FirstBoot {
	return withForm(fleet.CloudInitForm{Network: []fleet.FirstBootNIC{n}})
}

func withFile(w fleet.FirstFile) fleet.FirstBoot {
	return withForm(fleet.CloudInitForm{Files: []fleet.FirstFile{w}})
}

func withUserData(text string) fleet.FirstBoot {
	return fleet.FirstBoot{Kind: fleet.CloudConfig, UserData: text}
}

func withCloudConfig(text string) fleet.FirstBoot { return withUserData("#cloud-config\n" + text) }

func withNetworkConfig(text string) fleet.FirstBoot {
	return fleet.FirstBoot{Kind: fleet.CloudConfig, UserData: "#cloud-config\npackages: [a]\n", NetworkConfig: text}
}

func withIgnition(text string) fleet.FirstBoot {
	return fleet.FirstBoot{Kind: fleet.Ignition, UserData: text}
}

func withSysprep(text string) fleet.FirstBoot {
	return fleet.FirstBoot{Kind: fleet.Sysprep, UserData: text}
}

const (
	unattend = `<unattend xmlns="urn:schemas-microsoft-com:unattend">`
	hash     = "$6$abcdefgh$0123456789"
)

var refused = []refusedCase{
	{"no kind", fleet.FirstBoot{}, "kind", "Choose how"},
	{"an unknown kind", fleet.FirstBoot{Kind: "kickstart"}, "kind", "no such kind"},
	{"no form", fleet.FirstBoot{Kind: fleet.CloudInit}, "cloudInit", "Fill in"},
	{"a form and a text", fleet.FirstBoot{Kind: fleet.CloudConfig, UserData: "#cloud-config\npackages: [a]\n", CloudInit: &fleet.CloudInitForm{}}, "cloudInit", "Leave it out"},
	{"a text with the form kind", fleet.FirstBoot{Kind: fleet.CloudInit, CloudInit: &fleet.CloudInitForm{}, UserData: "x"}, "userData", "Leave it out"},
	{"a network-config for Windows", fleet.FirstBoot{Kind: fleet.Sysprep, UserData: answers, NetworkConfig: "version: 2"}, "networkConfig", "Leave it out"},

	{"a hostname with a space", withForm(fleet.CloudInitForm{Hostname: "a b"}), "cloudInit.hostname", "hostname has"},
	{"a hostname with an option", withForm(fleet.CloudInitForm{Hostname: "-rf"}), "cloudInit.hostname", "hostname has"},
	{"a long hostname", withForm(fleet.CloudInitForm{Hostname: strings.Repeat("a", 64)}), "cloudInit.hostname", "63 at most"},
	{"a hostname with a line break", withForm(fleet.CloudInitForm{Hostname: "a\nb"}), "cloudInit.hostname", "hostname has"},
	{"a time zone that is a path", withForm(fleet.CloudInitForm{Timezone: "../../etc/passwd"}), "cloudInit.timezone", "time zone"},
	{"a locale with a command", withForm(fleet.CloudInitForm{Locale: "en; id"}), "cloudInit.locale", "locale"},
	{"a variable outside a template", withForm(fleet.CloudInitForm{Hostname: "{{vm.name}}"}), "cloudInit.hostname", "hostname has"},

	{"a shell of the image's default user", withUser(fleet.FirstUser{SSHKeys: []string{key}, Shell: "/bin/sh"}), "cloudInit.users[0].name", "Name the user"},
	{"sudo of the image's default user", withUser(fleet.FirstUser{SSHKeys: []string{key}, Sudo: true}), "cloudInit.users[0].name", "Name the user"},
	{"groups of the image's default user", withUser(fleet.FirstUser{SSHKeys: []string{key}, Groups: []string{"adm"}}), "cloudInit.users[0].name", "Name the user"},
	{"two default users", withForm(fleet.CloudInitForm{Users: []fleet.FirstUser{{Password: "x"}, {Password: "x"}}}), "cloudInit.users[1].name", "one default user"},
	{"a default user without credentials", withUser(fleet.FirstUser{}), "cloudInit.users[0].sshKeys", "key or a password"},
	{"a yescrypt hash of the default user", withUser(fleet.FirstUser{PasswordHash: "$y$j9T$abcdefgh$0123456789abcdef"}), "cloudInit.users[0].passwordHash", "name the user"},
	{"a hash without salt of the default user", withUser(fleet.FirstUser{PasswordHash: "$6$0123456789abcdef"}), "cloudInit.users[0].passwordHash", "name the user"},
	{"a user with a colon", withUser(fleet.FirstUser{Name: "a:b", SSHKeys: []string{key}}), "cloudInit.users[0].name", "user's name"},
	{"a user in capitals", withUser(fleet.FirstUser{Name: "Anna", SSHKeys: []string{key}}), "cloudInit.users[0].name", "user's name"},
	{"a duplicate user", withForm(fleet.CloudInitForm{Users: []fleet.FirstUser{{Name: "a", Password: "x"}, {Name: "a", Password: "x"}}}), "cloudInit.users[1].name", "two users a"},
	{"a user without credentials", withUser(fleet.FirstUser{Name: "anna"}), "cloudInit.users[0].sshKeys", "key or a password"},
	{"an invalid SSH key", withUser(fleet.FirstUser{Name: "anna", SSHKeys: []string{"ssh-rsa hello"}}), "cloudInit.users[0].sshKeys[0]", "no public key"},
	{"a private key", withUser(fleet.FirstUser{Name: "anna", SSHKeys: []string{"-----BEGIN OPENSSH PRIVATE KEY-----"}}), "cloudInit.users[0].sshKeys[0]", "no public key"},
	{"a key with a command", withUser(fleet.FirstUser{Name: "anna", SSHKeys: []string{`command="id" ` + key}}), "cloudInit.users[0].sshKeys[0]", "without options"},
	{"two SSH keys in one entry", withUser(fleet.FirstUser{Name: "anna", SSHKeys: []string{key + "\n" + key}}), "cloudInit.users[0].sshKeys[0]", "one line"},
	{"a comment as a key", withUser(fleet.FirstUser{Name: "anna", SSHKeys: []string{"# " + key}}), "cloudInit.users[0].sshKeys[0]", "no public key"},
	{"a key that is too long", withUser(fleet.FirstUser{Name: "anna", SSHKeys: []string{key + strings.Repeat("x", fleet.MaxFirstKey)}}), "cloudInit.users[0].sshKeys[0]", "no public key"},
	{"too many keys", withUser(fleet.FirstUser{Name: "anna", SSHKeys: make([]string, fleet.MaxFirstKeys+1)}), "cloudInit.users[0].sshKeys", "At most"},
	{"a password with a line break", withUser(fleet.FirstUser{Name: "anna", Password: "a\nb"}), "cloudInit.users[0].password", "one line"},
	{"a password with NUL", withUser(fleet.FirstUser{Name: "anna", Password: "a\x00"}), "cloudInit.users[0].password", "one line"},
	{"a long password", withUser(fleet.FirstUser{Name: "anna", Password: strings.Repeat("a", 256)}), "cloudInit.users[0].password", "at most 255"},
	{"a plain password as hash", withUser(fleet.FirstUser{Name: "anna", PasswordHash: "secret"}), "cloudInit.users[0].passwordHash", "crypt(3)"},
	{"an MD5 hash", withUser(fleet.FirstUser{Name: "anna", PasswordHash: "$1$abc$0123456789abcdef"}), "cloudInit.users[0].passwordHash", "crypt(3)"},
	{"a password and a hash", withUser(fleet.FirstUser{Name: "anna", Password: "a", PasswordHash: hash}), "cloudInit.users[0].passwordHash", "not both"},
	{"a group with a comma", withUser(fleet.FirstUser{Name: "anna", Password: "a", Groups: []string{"adm,root"}}), "cloudInit.users[0].groups[0]", "group's name"},
	{"a shell that is not a path", withUser(fleet.FirstUser{Name: "anna", Password: "a", Shell: "bash"}), "cloudInit.users[0].shell", "absolute path"},
	{"too many users", withForm(fleet.CloudInitForm{Users: make([]fleet.FirstUser, fleet.MaxFirstUsers+1)}), "cloudInit.users", "At most"},

	{"an address without a prefix", withNIC(fleet.FirstBootNIC{Addresses: []string{"192.0.2.10"}}), "cloudInit.network[0].addresses[0]", "with its prefix"},
	{"a multicast address", withNIC(fleet.FirstBootNIC{Addresses: []string{"224.0.0.1/24"}}), "cloudInit.network[0].addresses[0]", "with its prefix"},
	{"the unspecified address", withNIC(fleet.FirstBootNIC{Addresses: []string{"0.0.0.0/0"}}), "cloudInit.network[0].addresses[0]", "with its prefix"},
	{"a gateway outside the networks", withNIC(fleet.FirstBootNIC{Addresses: []string{"192.0.2.10/24"}, Gateways: []string{"198.51.100.1"}}), "cloudInit.network[0].gateways[0]", "in no network"},
	{"a gateway with DHCP", withNIC(fleet.FirstBootNIC{Gateways: []string{"192.0.2.1"}}), "cloudInit.network[0].gateways[0]", "in no network"},
	{"two gateways", withNIC(fleet.FirstBootNIC{Addresses: []string{"192.0.2.10/24"}, Gateways: []string{"192.0.2.1", "192.0.2.2"}}), "cloudInit.network[0].gateways[1]", "At most one"},
	{"a gateway that is a name", withNIC(fleet.FirstBootNIC{Addresses: []string{"192.0.2.10/24"}, Gateways: []string{"router"}}), "cloudInit.network[0].gateways[0]", "gateway's address"},
	{"a DNS server that is a name", withNIC(fleet.FirstBootNIC{DNS: []string{"dns.example.org"}}), "cloudInit.network[0].dns[0]", "DNS server"},
	{"a search domain with a space", withNIC(fleet.FirstBootNIC{Search: []string{"a b"}}), "cloudInit.network[0].search[0]", "domain"},
	{"too many addresses", withNIC(fleet.FirstBootNIC{Addresses: make([]string, 17)}), "cloudInit.network[0].addresses", "At most"},
	{"too many NICs", withForm(fleet.CloudInitForm{Network: make([]fleet.FirstBootNIC, fleet.MaxNICs+1)}), "cloudInit.network", "At most"},

	{"a package that is an option", withForm(fleet.CloudInitForm{Packages: []string{"--purge"}}), "cloudInit.packages[0]", "no name of a package"},
	{"a package with a command", withForm(fleet.CloudInitForm{Packages: []string{"nginx; id"}}), "cloudInit.packages[0]", "no name of a package"},
	{"too many packages", withForm(fleet.CloudInitForm{Packages: make([]string, fleet.MaxFirstPackages+1)}), "cloudInit.packages", "At most"},
	{"a path with ..", withFile(fleet.FirstFile{Path: "/etc/../root/x"}), "cloudInit.files[0].path", "absolute path"},
	{"a relative path", withFile(fleet.FirstFile{Path: "x"}), "cloudInit.files[0].path", "absolute path"},
	{"a file with a line break", withFile(fleet.FirstFile{Path: "/a\nb"}), "cloudInit.files[0].path", "absolute path"},
	{"a mode that is not octal", withFile(fleet.FirstFile{Path: "/a", Mode: "rw-r--r--"}), "cloudInit.files[0].mode", "octal"},
	{"an owner with a space", withFile(fleet.FirstFile{Path: "/a", Owner: "root root"}), "cloudInit.files[0].owner", "owner"},
	{"a binary file", withFile(fleet.FirstFile{Path: "/a", Content: "\xff"}), "cloudInit.files[0].content", "text"},
	{"a large file", withFile(fleet.FirstFile{Path: "/a", Content: strings.Repeat("a", fleet.MaxFirstFile+1)}), "cloudInit.files[0].content", "64 KiB"},
	{"a duplicate file", withForm(fleet.CloudInitForm{Files: []fleet.FirstFile{{Path: "/a"}, {Path: "/a"}}}), "cloudInit.files[1].path", "two files"},
	{"too many files", withForm(fleet.CloudInitForm{Files: make([]fleet.FirstFile, fleet.MaxFirstFiles+1)}), "cloudInit.files", "At most"},
	{"an empty command", withForm(fleet.CloudInitForm{Run: []string{" "}}), "cloudInit.run[0]", "not empty"},
	{"a command with NUL", withForm(fleet.CloudInitForm{Run: []string{"a\x00"}}), "cloudInit.run[0]", "text"},
	{"too many commands", withForm(fleet.CloudInitForm{Run: make([]string, fleet.MaxFirstCommands+1)}), "cloudInit.run", "At most"},

	{"no user-data", withUserData(""), "userData", "Give the user-data"},
	{"a script", withUserData("#!/bin/sh\nid\n"), "userData", "Line 1: User-data begins with the line #cloud-config"},
	{"a Jinja template", withUserData("## template: jinja\n#cloud-config\n"), "userData", "Line 1"},
	{"a multipart archive", withUserData("Content-Type: multipart/mixed\n"), "userData", "Line 1"},
	{"only the header line", withUserData("#cloud-config\n"), "userData", "is empty"},
	{"large user-data", withCloudConfig("# " + strings.Repeat("a", fleet.MaxUserData)), "userData", "128 KiB"},
	{"invalid YAML", withCloudConfig("a: [b\n"), "userData", "no YAML"},
	{"a tab", withCloudConfig("a:\n\tb: c\n"), "userData", "Line 3: This is no YAML"},
	{"control characters", withCloudConfig("a: \x00\n"), "userData", "no text"},
	{"invalid UTF-8", withCloudConfig("a: \xff\n"), "userData", "no text"},
	{"an anchor", withCloudConfig("packages: &a [b]\n"), "userData", "Line 2: Anchors"},
	{"an alias", withCloudConfig("packages: &a [b]\nruncmd: *a\n"), "userData", "Anchors"},
	{"an alias bomb", withCloudConfig("a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n"), "userData", "Anchors"},
	{"a merge key", withCloudConfig("ntp:\n  <<: {enabled: true}\n"), "userData", "Line 3: Merge keys"},
	{"a tag", withCloudConfig("packages: !!python/object/apply:os.system [id]\n"), "userData", "Line 2: The tag"},
	{"binary", withCloudConfig("runcmd: [!!binary aWQ=]\n"), "userData", "The tag"},
	{"a duplicate key", withCloudConfig("packages: [a]\npackages: [b]\n"), "userData", "Line 3: The key packages occurs twice"},
	{"two documents", withCloudConfig("packages: [a]\n---\npackages: [b]\n"), "userData", "more than one document"},
	{"a deep document", withCloudConfig("runcmd: " + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "\n"), "userData", "deep"},
	{"a very deep document", withCloudConfig("runcmd: " + strings.Repeat("[", 60_000) + "\n"), "userData", "Line"},
	{"many values", withCloudConfig("runcmd: [" + strings.Repeat("a,", 30_000) + "]\n"), "userData", "20000 values"},
	{"a list", withCloudConfig("- a\n"), "userData", "keys with their values"},
	{"a boolean key", withCloudConfig("yes: a\n"), "userData", "does not read the key"},
	{"an unquoted variable as key", withCloudConfig("runcmd: [{{vm.name}}]\n"), "userData", "in quotes"},
	{"a time of day", withCloudConfig("runcmd: [12:30:45]\n"), "userData", "base 60"},
	{"a date", withCloudConfig("runcmd: [2024-01-01]\n"), "userData", "date"},
	{"a large number", withCloudConfig("runcmd: [99999999999999999999]\n"), "userData", "too large"},
	{"an unknown key", withCloudConfig("package: [a]\n"), "userData", "Line 2: cloud-init knows no package"},
	{"packages that are a number", withCloudConfig("packages: 3\n"), "userData", "Line 2: cloud-init does not accept packages"},
	{"a mode that is a number", withCloudConfig("write_files:\n  - path: /a\n    permissions: 0644\n"), "userData", "write_files.0.permissions"},
	{"a file without a path", withCloudConfig("write_files:\n  - content: x\n"), "userData", "write_files.0"},
	{"a boolean locale", withCloudConfig("locale: no\n"), "userData", "locale"},
	{"an unknown key of a user", withCloudConfig("users:\n  - name: a\n    passwort: b\n"), "userData", "users.0"},
	{"a string for a boolean", withCloudConfig("package_update: maybe\n"), "userData", "package_update"},

	{"a network-config without a version", withNetworkConfig("ethernets: {}\n"), "networkConfig", "which version"},
	{"a network-config of version 3", withNetworkConfig("version: 3\n"), "networkConfig", "which version"},
	{"an unknown key of the network", withNetworkConfig("version: 2\nether: {}\n"), "networkConfig", "Line 2: A network-config of version 2 has no ether"},
	{"devices without names", withNetworkConfig("version: 2\nethernets: [eth0]\n"), "networkConfig", "devices by name"},
	{"a string for a device", withNetworkConfig("version: 2\nethernets: {eth0: dhcp}\n"), "networkConfig", "keys with their values"},
	{"no list of devices", withNetworkConfig("version: 1\n"), "networkConfig", "below \"config\""},
	{"an unknown type of device", withNetworkConfig("version: 1\nconfig: [{type: magic}]\n"), "networkConfig", "no type"},
	{"keys beside the network key", withNetworkConfig("network: {version: 2}\nx: 1\n"), "networkConfig", "the only key"},
	{"a large network-config", withNetworkConfig(strings.Repeat("#", fleet.MaxNetworkConfig+1)), "networkConfig", "32 KiB"},

	{"no Ignition", withIgnition(""), "userData", "Give the Ignition"},
	{"YAML as Ignition", withIgnition("variant: fcos\n"), "userData", "no JSON"},
	{"broken JSON", withIgnition("{\n\"a\": }"), "userData", "Line 2: This is no JSON"},
	{"a list as Ignition", withIgnition("[]"), "userData", "Butane"},
	{"a duplicate name", withIgnition(`{"ignition": {"version": "3.4.0"}, "ignition": {}}`), "userData", "no JSON"},
	{"no version", withIgnition(`{"ignition": {}}`), "userData", "which version"},
	{"a future version", withIgnition(`{"ignition": {"version": "9.0.0"}}`), "userData", "which version"},
	{"an unknown section", withIgnition(`{"ignition": {"version": "3.4.0"}, "users": {}}`), "userData", "Ignition knows no users"},
	{"a list for a section", withIgnition(`{"ignition": {"version": "3.4.0"}, "storage": []}`), "userData", "object as storage"},
	{"deep Ignition", withIgnition(`{"ignition": {"version": "3.4.0", "x": ` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}}`), "userData", "deep"},
	{"large Ignition", withIgnition(strings.Repeat(" ", fleet.MaxUserData) + "{}"), "userData", "128 KiB"},

	{"no answer file", withSysprep(""), "userData", "Give the answer file"},
	{"no XML", withSysprep("<a>"), "userData", "answer file is"},
	{"an answer file that ends early", withSysprep(unattend), "userData", "no XML"},
	{"entities", withSysprep(`<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]>` + unattend + `&b;</unattend>`), "userData", "document type"},
	{"an unknown entity", withSysprep(unattend + "&b;</unattend>"), "userData", "no XML"},
	{"another root element", withSysprep(`<unattend><settings pass="specialize"/></unattend>`), "userData", "An answer file is"},
	{"another element in the root", withSysprep(unattend + "<component/></unattend>"), "userData", "not <component>"},
	{"an unknown pass", withSysprep(unattend + `<settings pass="later"/></unattend>`), "userData", "no pass"},
	{"an answer file without settings", withSysprep(unattend + `</unattend>`), "userData", "no <settings>"},
	{"another encoding", withSysprep(`<?xml version="1.0" encoding="utf-16"?>` + unattend + `<settings pass="specialize"/></unattend>`), "userData", "no XML"},
	{"a deep answer file", withSysprep(unattend + `<settings pass="specialize">` + strings.Repeat("<a>", 40) + strings.Repeat("</a>", 40) + `</settings></unattend>`), "userData", "deep"},
	{"a large answer file", withSysprep(strings.Repeat("x", fleet.MaxUserData+1)), "userData", "128 KiB"},
}

func TestInvalidFirstBootDataIsRefused(t *testing.T) {
	t.Parallel()
	if len(refused) < 60 {
		t.Errorf("%d refused inputs are tried", len(refused))
	}
	for _, r := range refused {
		got := errorMessage(checkError(r.f, false))
		found := false
		for line := range strings.SplitSeq(got, "\n") {
			found = found || strings.HasPrefix(line, "firstBoot."+r.field+": ") && strings.Contains(line, r.message)
		}
		if !found {
			t.Errorf("%s: want %q at %s, got %q", r.what, r.message, r.field, got)
		}
	}
}

package firstboot

import (
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"

	"quantix/internal/fleet"
)

var (
	hostForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$`)
	userForm = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)
	hashForm = regexp.MustCompile(`^\$(5|6|y|2[aby])\$[./A-Za-z0-9$=,+-]{8,250}$`)
	// cloud-init would treat text of any other form as a plain-text password
	defaultHashForm = regexp.MustCompile(`^\$(2a|2y|5|6)(\$[^$:]+)?\$[^$:]+\$[^$:]+$`)
	zoneForm        = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+-]{0,31}(/[A-Za-z0-9][A-Za-z0-9_+-]{0,31}){0,2}$`)
	localeForm      = regexp.MustCompile(`^([A-Za-z]{2,3}(_[A-Z]{2})?|C|POSIX)(\.[A-Za-z0-9-]{1,16})?(@[A-Za-z]{1,16})?$`)
	packageForm     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.+_:~=/-]{0,199}$`)
	modeForm        = regexp.MustCompile(`^[0-7]{3,4}$`)
	ownerForm       = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}(:[a-z_][a-z0-9_-]{0,31})?$`)
	absoluteForm    = regexp.MustCompile(`^/[^\x00-\x1f\x7f]*$`)
)

const maxPassword = 255 // bytes

// checkForm checks the fields of the cloud-init form.
func (in checker) checkForm(at string, f fleet.CloudInitForm) {
	in.require(f.Hostname == "" || len(f.Hostname) <= 253 && hostForm.MatchString(f.Hostname), at+"hostname", f.Hostname,
		"A hostname has letters, digits and hyphens, with dots between its parts, each of 63 at most.")
	in.require(f.Timezone == "" || zoneForm.MatchString(f.Timezone), at+"timezone", f.Timezone, "Give a time zone such as Europe/Zurich or UTC.")
	in.require(f.Locale == "" || localeForm.MatchString(f.Locale), at+"locale", f.Locale, "Give a locale such as en_GB.UTF-8.")
	in.checkUsers(at+"users", f.Users)
	in.checkNICs(at+"network", f.Network)
	if len(f.Packages) > fleet.MaxFirstPackages {
		in.add(at+"packages", "At most %d packages.", fleet.MaxFirstPackages)
	}
	for i, p := range f.Packages {
		in.require(packageForm.MatchString(p), fmt.Sprintf("%spackages[%d]", at, i), p, "%q is no name of a package.", shortenForError(p))
	}
	in.checkFiles(at+"files", f.Files)
	if len(f.Run) > fleet.MaxFirstCommands {
		in.add(at+"run", "At most %d commands.", fleet.MaxFirstCommands)
	}
	for i, line := range f.Run {
		in.require(strings.TrimSpace(line) != "" && len(line) <= fleet.MaxFirstCommand && isPlainText(line), fmt.Sprintf("%srun[%d]", at, i), "",
			"A command is text of at most %d bytes, and not empty.", fleet.MaxFirstCommand)
	}
}

func (in checker) checkUsers(at string, users []fleet.FirstUser) {
	if len(users) > fleet.MaxFirstUsers {
		in.add(at, "At most %d users.", fleet.MaxFirstUsers)
		return
	}
	seen := map[string]bool{}
	for i, u := range users {
		at := fmt.Sprintf("%s[%d].", at, i)
		in.require(u.Name == "" || userForm.MatchString(u.Name), at+"name", u.Name, "A user's name has 1–32 lower-case letters, digits, _ and -, and starts with a letter or _.")
		switch {
		case seen[u.Name] && u.Name == "":
			in.add(at+"name", "Name this user: an image has one default user.")
		case seen[u.Name]:
			in.add(at+"name", "There are two users %s. Name each once.", shortenForError(u.Name))
		}
		seen[u.Name] = true
		if u.Name == "" {
			in.checkDefaultUser(at, u)
		}
		if len(u.SSHKeys) == 0 && u.Password == "" && u.PasswordHash == "" {
			in.add(at+"sshKeys", "Give the user a key or a password, so that the user can sign in.")
		}
		if len(u.SSHKeys) > fleet.MaxFirstKeys {
			in.add(at+"sshKeys", "At most %d keys.", fleet.MaxFirstKeys)
		}
		for k, key := range u.SSHKeys {
			in.require(isPublicKey(key), fmt.Sprintf("%ssshKeys[%d]", at, k), key, "This is no public key. Give one line such as \"ssh-ed25519 AAAA… name\", without options before it.")
		}
		in.require(u.Password == "" || len(u.Password) <= maxPassword && isSingleLine(u.Password), at+"password", u.Password, "A password is one line of at most %d bytes.", maxPassword)
		in.require(u.PasswordHash == "" || hashForm.MatchString(u.PasswordHash), at+"passwordHash", u.PasswordHash, "Give the hash as crypt(3) writes it, such as $6$…, or the password itself.")
		if u.Password != "" && u.PasswordHash != "" {
			in.add(at+"passwordHash", "Give the password or its hash, not both.")
		}
		for k, g := range u.Groups {
			in.require(userForm.MatchString(g) && k < fleet.MaxFirstUsers, fmt.Sprintf("%sgroups[%d]", at, k), g, "A group's name has 1–32 lower-case letters, digits, _ and -; at most %d groups.", fleet.MaxFirstUsers)
		}
		in.require(u.Shell == "" || isAbsolutePath(u.Shell), at+"shell", u.Shell, "Give the shell as an absolute path, such as /bin/bash.")
	}
}

// checkDefaultUser adds an error for each field that needs a user name, because the image sets up sudo, groups and
// shell of its default user.
func (in checker) checkDefaultUser(at string, u fleet.FirstUser) {
	if u.Sudo || len(u.Groups) > 0 || u.Shell != "" {
		in.add(at+"name", "Name the user, or leave out sudo, groups and shell: the image sets them up for its default user.")
	}
	in.require(u.PasswordHash == "" || defaultHashForm.MatchString(u.PasswordHash), at+"passwordHash", u.PasswordHash,
		"Give the hash as SHA-512 crypt ($6$salt$hash), or name the user: cloud-init takes no other hash for the image's default user.")
}

// isPublicKey reports whether key is one public key in authorized_keys format, without options.
func isPublicKey(key string) bool {
	if len(key) > fleet.MaxFirstKey || !isSingleLine(key) {
		return false
	}
	_, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(key))
	return err == nil && len(options) == 0 && len(rest) == 0 && !strings.HasPrefix(strings.TrimSpace(key), "#")
}

func (in checker) checkNICs(at string, nics []fleet.FirstBootNIC) {
	if len(nics) > fleet.MaxNICs {
		in.add(at, "At most %d NICs.", fleet.MaxNICs)
		return
	}
	for i, n := range nics {
		in.checkNIC(fmt.Sprintf("%s[%d].", at, i), n)
	}
}

func (in checker) checkNIC(at string, n fleet.FirstBootNIC) {
	const limit = 16
	if len(n.Addresses) > limit || len(n.Gateways) > limit || len(n.DNS) > limit || len(n.Search) > limit {
		in.add(at+"addresses", "At most %d addresses, gateways, DNS servers and search domains each.", limit)
		return
	}
	var nets []netip.Prefix
	deferred := false
	for i, text := range n.Addresses {
		p, err := netip.ParsePrefix(text)
		in.require(err == nil && isUsableAddress(p.Addr()), fmt.Sprintf("%saddresses[%d]", at, i), text, "Give an address with its prefix, such as 192.0.2.10/24 or 2001:db8::10/64.")
		if deferred = deferred || in.template && variableForm.MatchString(text); err == nil {
			nets = append(nets, p)
		}
	}
	families := map[bool]bool{}
	for i, text := range n.Gateways {
		field := fmt.Sprintf("%sgateways[%d]", at, i)
		a, err := netip.ParseAddr(text)
		in.require(err == nil && isUsableAddress(a) && a.Zone() == "", field, text, "Give the gateway's address, such as 192.0.2.1.")
		if err != nil {
			continue
		}
		if families[a.Is4()] {
			in.add(field, "At most one gateway of IPv4 and one of IPv6.")
		}
		families[a.Is4()] = true
		on := a.IsLinkLocalUnicast() || deferred
		for _, p := range nets {
			on = on || p.Contains(a)
		}
		if !on {
			in.add(field, "The gateway %s is in no network of the NIC's addresses.", a)
		}
	}
	for i, text := range n.DNS {
		a, err := netip.ParseAddr(text)
		in.require(err == nil && isUsableAddress(a), fmt.Sprintf("%sdns[%d]", at, i), text, "Give the address of a DNS server, such as 192.0.2.53.")
	}
	for i, text := range n.Search {
		in.require(len(text) <= 253 && hostForm.MatchString(text), fmt.Sprintf("%ssearch[%d]", at, i), text, "Give a domain, such as example.org.")
	}
}

func isUsableAddress(a netip.Addr) bool { return a.IsValid() && !a.IsUnspecified() && !a.IsMulticast() }

func (in checker) checkFiles(at string, files []fleet.FirstFile) {
	if len(files) > fleet.MaxFirstFiles {
		in.add(at, "At most %d files.", fleet.MaxFirstFiles)
		return
	}
	seen := map[string]bool{}
	for i, f := range files {
		at := fmt.Sprintf("%s[%d].", at, i)
		in.require(isAbsolutePath(f.Path) && f.Path != "/", at+"path", f.Path, "Give the file's absolute path, without \"..\" and doubled slashes.")
		if seen[f.Path] && f.Path != "" {
			in.add(at+"path", "There are two files %s. Name each once.", shortenForError(f.Path))
		}
		seen[f.Path] = true
		if len(f.Content) > fleet.MaxFirstFile || !isPlainText(f.Content) {
			in.add(at+"content", "A file is text of at most %d KiB.", fleet.MaxFirstFile>>10)
		}
		in.require(f.Mode == "" || modeForm.MatchString(f.Mode), at+"mode", f.Mode, "Give the mode as three or four octal digits, such as 0644.")
		in.require(f.Owner == "" || ownerForm.MatchString(f.Owner), at+"owner", f.Owner, "Give the owner as user or user:group.")
	}
}

func isAbsolutePath(p string) bool {
	return len(p) <= 1024 && absoluteForm.MatchString(p) && utf8.ValidString(p) && path.Clean(p) == p
}

// isPlainText reports whether s is plain text: UTF-8 without control characters, which YAML cannot represent.
func isPlainText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' && r != '\r' || r == 0x7f })
}

func isSingleLine(s string) bool { return isPlainText(s) && !strings.ContainsAny(s, "\n\r") }

// shortenForError shortens a text for an error message.
func shortenForError(s string) string {
	const limit = 40
	if len(s) <= limit {
		return s
	}
	s = strings.ToValidUTF8(s[:limit], "")
	return s + "…"
}

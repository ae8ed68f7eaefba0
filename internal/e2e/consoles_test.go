//go:build linux && ordeal

package e2e

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
)

// guestConsole is a running guest on a real host, whose console tests use.
type guestConsole struct {
	*playground
	api
	host readyHost
	name string
	page string // path of the VM's page
}

func newGuestConsole(t *testing.T, name string) *guestConsole {
	t.Helper()
	s := labProgram.get(t)
	a := s.api()
	g := &guestConsole{playground: s, api: a, host: s.Hosts[0], name: uniqueName(name)}
	pool := a.poolByName(t, "shared").ID
	vm := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": g.name, "projectId": a.projectByName(t, "lab").ID, "hostId": a.hostByName(t, "host-1").ID, "start": true,
		"spec": map[string]any{"cpus": 1, "memoryMiB": 256, "firmware": "bios", "disks": []any{map[string]any{"poolId": pool, "image": map[string]any{"poolId": pool, "volume": "tiny-guest.qcow2"}}}},
	})
	g.page = "/vms/" + string(vm.ID)
	a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseRunning)
	waitBooted(t, g.host, g.name)
	return g
}

// newOperator creates a user with the role of operators, and signs the user in.
func (g *guestConsole) newOperator(admin *tab, name string) *tab {
	admin.Helper()
	admin.open("/users/new")
	admin.fillInput("#name", name)
	admin.chooseOption("#role", "Operator")
	admin.click("button.primary", "Create user")
	admin.waitText("#user-form", name+" can sign in")
	password := strings.TrimSpace(admin.visibleText("#one-time"))
	return newTenantTab(admin.T, g.playground, name, password)
}

func (g *guestConsole) openConsole(p *tab) {
	p.Helper()
	p.open(g.page + "/console")
	p.waitTrue("the console's connection", `document.querySelector("#console").dataset.state === "connected"`)
}

// typeCommand types a shell command whose output differs from its text.
func (p *tab) typeCommand(word string) {
	p.Helper()
	p.click("#console canvas", "")
	p.typeKeys("echo quan''tix-" + word + "\r")
}

func (g *guestConsole) waitPrinted(t *testing.T, word string) {
	t.Helper()
	eventually(t, guestLimit, "quantix-"+word+" on the guest's terminal", func() (bool, string) {
		screen := guestTerminalText(t, g.host, g.name)
		return strings.Contains(screen, "quantix-"+word), screen
	})
}

// TestConsoleHandedOverBetweenUsers lets two users share the console of a real guest: only the one who has the keyboard
// reaches the guest, the keyboard is handed over and taken back, and a session is ended by the other user.
func TestConsoleHandedOverBetweenUsers(t *testing.T) {
	t.Parallel()
	g := newGuestConsole(t, "shared-screen")
	admin := newTab(t, g.URL)
	admin.signIn(g.playground)
	bobName := uniqueName("bob")
	bob := g.newOperator(admin, bobName)
	g.openConsole(admin)
	g.openConsole(bob)
	admin.waitText("#console-people", "Hand over to "+bobName)
	bob.waitText("#console-people", "Ask for the keyboard")
	bob.savePicture("console-watching")

	bob.typeCommand("of-a-watcher")
	admin.typeCommand("first")
	g.waitPrinted(t, "first")
	if screen := guestTerminalText(t, g.host, g.name); strings.Contains(screen, "watcher") {
		t.Errorf("keys of the user who watches reached the guest: %s", screen)
	}

	bob.click("#console-people button", "Ask for the keyboard")
	admin.waitText("#console-people", "asks for the keyboard")
	admin.savePicture("console-asked")
	begin := time.Now()
	admin.click("#console-people button", "Hand over to "+bobName)
	bob.waitText("#console-people", "Hand over to")
	t.Logf("the keyboard was handed over after %s", time.Since(begin))
	admin.typeCommand("of-a-former-holder")
	bob.typeCommand("second")
	g.waitPrinted(t, "second")
	if screen := guestTerminalText(t, g.host, g.name); strings.Contains(screen, "former-holder") {
		t.Errorf("keys of the user who handed over reached the guest: %s", screen)
	}

	bob.click("#console-people button", "Hand over to")
	admin.waitText("#console-people", "Hand over to "+bobName)
	admin.typeCommand("third")
	g.waitPrinted(t, "third")

	admin.open("/console-sessions?filter=open:yes+who:" + bobName)
	admin.savePicture("console-sessions")
	admin.click("tbody [data-menu-open]", "")
	admin.click(".menu-item", "End session")
	admin.click("dialog[open] button", "End session")
	bob.waitText("#console .screen-words", "ended this console session")
	bob.savePicture("console-ended")
}

// TestGermanTextTypedIntoGuest pastes text into a guest whose system has a German keymap, which is made from QEMU's.
func TestGermanTextTypedIntoGuest(t *testing.T) {
	t.Parallel()
	const text = "P@ß|{}€ yzYZäöüÄÖÜ~\\[]#'+*<>\"§$%&/()=?`´^°"
	g := newGuestConsole(t, "german")
	keymap := base64.StdEncoding.EncodeToString(kernelKeymap(t, "/usr/share/qemu/keymaps/de"))
	g.runInGuest(t, "echo "+keymap+" | base64 -d > /tmp/de.kmap && loadkmap < /tmp/de.kmap")
	p := newTab(t, g.URL)
	p.signIn(g.playground)
	g.openConsole(p)
	paste := func(what string) {
		p.click("[data-console=paste]", "Paste")
		p.waitTrue("the dialog", `!!document.querySelector("#paste-text")`)
		p.chooseOption("#paste-layout", "German (no dead keys)")
		p.fillInput("#paste-text", what)
		p.click("dialog[open] button.primary", "Type text")
		p.waitTrue("the end of the dialog", `!document.querySelector("#paste-text")`)
	}
	eventually(t, guestLimit, "the pasted text in the guest", func() (bool, string) {
		paste("read -r x; printf %s \"$x\" > /tmp/got\n")
		paste(text + "\n")
		var got string
		for range 20 {
			if got = g.runInGuest(t, "cat /tmp/got"); got == text {
				return true, ""
			}
			time.Sleep(pollEvery)
		}
		return false, fmt.Sprintf("the guest got %q\nwant          %q", got, text)
	})
}

// runInGuest runs a shell script in the guest by its agent, and returns its output.
func (g *guestConsole) runInGuest(t *testing.T, script string) string {
	t.Helper()
	out, err := execInGuest(t, g.host, g.name, "/bin/sh", "-c", script)
	if err != nil {
		return err.Error()
	}
	return out
}

// kernelKeymap converts a keymap of QEMU to the format of busybox's loadkmap: the tables plain, shift, AltGr, and shift
// with AltGr.
func kernelKeymap(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const shift, altgr, control = 1, 2, 4
	tables := map[int]*[128]uint16{0: {}, shift: {}, altgr: {}, shift | altgr: {}, control: {}}
	line := regexp.MustCompile(`(?m)^(\S+) 0x([0-9a-f]+)((?: \w+)*)$`)
	for _, m := range line.FindAllStringSubmatch(string(text), -1) {
		var code int
		if _, err := fmt.Sscanf(m[2], "%x", &code); err != nil || code >= 128 {
			continue
		}
		character, ok := keysymCharacter(m[1])
		if !ok {
			continue
		}
		table := 0
		if strings.Contains(m[3], "shift") {
			table |= shift
		}
		if strings.Contains(m[3], "altgr") {
			table |= altgr
		}
		tables[table][code] = kernelKeysym(character)
	}
	// Keys without a character.
	for _, table := range tables {
		table[28], table[57], table[14], table[15] = 0x0201, 0x0020, 0x007f, 0x0009 // Enter, space, backspace, tab
		table[42], table[54], table[29], table[100] = 0x0700, 0x0700, 0x0702, 0x0701
	}
	var out []byte
	out = append(out, "bkeymap"...)
	flags := make([]byte, 256)
	for table := range tables {
		flags[table] = 1
	}
	out = append(out, flags...)
	for table := range 256 {
		if of := tables[table]; of != nil {
			for _, value := range of {
				out = append(out, byte(value), byte(value>>8))
			}
		}
	}
	return out
}

// kernelKeysym is the kernel's symbol of a character: Latin-1 unchanged, others as an index into Unicode.
func kernelKeysym(character rune) uint16 {
	if character < 0x100 {
		return uint16(character)
	}
	return uint16(character) ^ 0xf000
}

// keysymCharacter returns the character of an X keysym by its name.
func keysymCharacter(name string) (rune, bool) {
	if runes := []rune(name); len(runes) == 1 {
		return runes[0], true
	}
	character, ok := map[string]rune{
		"exclam": '!', "quotedbl": '"', "numbersign": '#', "dollar": '$', "percent": '%', "ampersand": '&', "apostrophe": '\'', "parenleft": '(', "parenright": ')', "asterisk": '*',
		"plus": '+', "comma": ',', "minus": '-', "period": '.', "slash": '/', "colon": ':', "semicolon": ';', "less": '<', "equal": '=', "greater": '>', "question": '?', "at": '@',
		"bracketleft": '[', "backslash": '\\', "bracketright": ']', "asciicircum": '^', "underscore": '_', "grave": '`', "braceleft": '{', "bar": '|', "braceright": '}', "asciitilde": '~',
		"EuroSign": '€', "section": '§', "degree": '°', "acute": '´', "ssharp": 'ß', "adiaeresis": 'ä', "odiaeresis": 'ö', "udiaeresis": 'ü', "Adiaeresis": 'Ä', "Odiaeresis": 'Ö',
		"Udiaeresis": 'Ü', "mu": 'µ', "onesuperior": '¹', "twosuperior": '²', "threesuperior": '³',
	}[name]
	return character, ok
}

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// loginLimit is how long a whole Debian may take to its login, emulated on a busy machine.
const loginLimit = 6 * time.Minute

// serial is a guest's serial console with somebody before it.
type serial struct {
	t    *testing.T
	pty  *os.File
	said bytes.Buffer
	n    int // questions asked
}

func openSerial(t *testing.T, path string) *serial {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	set, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	set.Lflag &^= unix.ECHO | unix.ICANON | unix.ISIG
	set.Iflag &^= unix.ICRNL
	set.Oflag &^= unix.OPOST
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, set); err != nil {
		t.Fatal(err)
	}
	pty := os.NewFile(uintptr(fd), path)
	t.Cleanup(func() { pty.Close() })
	return &serial{t: t, pty: pty}
}

// expect reads until the guest has said it, and returns what it said up to there.
func (s *serial) expect(what string, limit time.Duration) string {
	s.t.Helper()
	form := regexp.MustCompile(what)
	if err := s.pty.SetReadDeadline(time.Now().Add(limit)); err != nil {
		s.t.Fatal(err)
	}
	buf := make([]byte, 4096)
	for {
		if at := form.FindIndex(s.said.Bytes()); at != nil {
			return string(s.said.Next(at[1]))
		}
		n, err := s.pty.Read(buf)
		s.said.Write(buf[:n])
		if err != nil {
			text := s.said.String()
			s.t.Fatalf("the guest does not say %q: %v; it said %q", what, err, text[max(0, len(text)-600):])
		}
	}
}

func (s *serial) say(line string) {
	s.t.Helper()
	if _, err := s.pty.WriteString(line + "\r"); err != nil {
		s.t.Fatal(err)
	}
}

// signInTries is how often somebody types a name and a password: a guest may ask for them while what it was told is still at work on its users.
const signInTries = 3

// signIn signs in once the guest asks for it, and has a shell that does not echo, on a console to which the kernel says nothing in between.
func (s *serial) signIn(hostname, user, password string) {
	s.t.Helper()
	for try := 1; ; try++ {
		s.expect(hostname+` login: `, loginLimit)
		s.say(user)
		s.expect(`assword: `, loginLimit)
		s.say(password)
		if !strings.Contains(s.expect(`\$ |Login incorrect`, loginLimit), "Login incorrect") {
			break
		}
		if try == signInTries {
			s.t.Fatalf("%s does not let %s in", hostname, user)
		}
	}
	s.say("stty -echo; PS1= PS2= exec sh -c 'echo quiet; exec sh'")
	s.expect(`quiet\r?\n`, guestLimit)
	s.ask(":") // whatever else a shell says when it begins
	s.ask("sudo -n dmesg -n 1 2>/dev/null")
}

// ask has the shell do something, and returns what that says.
func (s *serial) ask(command string) string {
	s.t.Helper()
	s.n++
	end := fmt.Sprintf("end-%d", s.n)
	s.say(command + "; echo e''" + end[1:])
	text := s.expect(end+`\r?\n`, guestLimit)
	return strings.TrimSpace(strings.ReplaceAll(text[:strings.LastIndex(text, end)], "\r", ""))
}

package release_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/release"
)

var linux = release.Platform{OS: "linux", Arch: "amd64"}

func sign(t *testing.T, program, version string) (release.Manifest, release.PrivateKey) {
	t.Helper()
	key, _, err := release.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	m, err := release.Sign(key, strings.NewReader(program), version, linux)
	if err != nil {
		t.Fatal(err)
	}
	return m, key
}

func TestSignedReleaseVerifies(t *testing.T) {
	t.Parallel()
	m, key := sign(t, "program", "1.2.0-rc.1+linux")
	text, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	read, err := release.ParseManifest(text)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := release.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	public, err := release.ParsePublicKey(key.Public().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := read.Verify([]release.PublicKey{other.Public(), public}); err != nil {
		t.Error(err)
	}
	if err := read.Verify([]release.PublicKey{other.Public()}); !errors.Is(err, release.ErrUntrustedKey) {
		t.Errorf("another key accepts the release: %v", err)
	}
	if err := read.Verify(nil); !errors.Is(err, release.ErrUntrustedKey) {
		t.Errorf("no key accepts the release: %v", err)
	}
	if err := read.CheckProgram(strings.NewReader("program")); err != nil {
		t.Error(err)
	}
	for _, changed := range []string{"", "Program", "program2"} {
		if read.CheckProgram(strings.NewReader(changed)) == nil {
			t.Errorf("the program %q has the signature of another", changed)
		}
	}
}

func TestChangedManifestIsRefused(t *testing.T) {
	t.Parallel()
	m, key := sign(t, "program", "1.2.0")
	other, _, _ := release.NewKey()
	forged, err := release.Sign(other, strings.NewReader("program"), "1.2.0", linux)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*release.Manifest){
		"version":             func(m *release.Manifest) { m.Version = "1.3.0" },
		"version with a line": func(m *release.Manifest) { m.Version = "1.2.0\nos linux" },
		"platform":            func(m *release.Manifest) { m.Arch = "arm64" },
		"size":                func(m *release.Manifest) { m.SizeBytes++ },
		"no size":             func(m *release.Manifest) { m.SizeBytes = 0 },
		"too large":           func(m *release.Manifest) { m.SizeBytes = release.MaxBytes + 1 },
		"hash":                func(m *release.Manifest) { m.SHA256 = strings.Repeat("0", 64) },
		"upper-case hash":     func(m *release.Manifest) { m.SHA256 = strings.ToUpper(m.SHA256) },
		"format":              func(m *release.Manifest) { m.Format = "quantix-release-2" },
		"signature":           func(m *release.Manifest) { m.Signature[3] ^= 1 },
		"no signature":        func(m *release.Manifest) { m.Signature = nil },
		"signature of another key under this key's ID": func(m *release.Manifest) { m.Signature = forged.Signature },
	} {
		changed := m
		changed.Signature = append([]byte(nil), m.Signature...)
		change(&changed)
		if changed.Verify([]release.PublicKey{key.Public()}) == nil {
			t.Errorf("a changed %s is accepted", name)
		}
	}
}

func TestUnreadableKeysAndManifestsAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "ed25519:", "ed25519:AAAA", "rsa:AAAA", "AAAA"} {
		if _, err := release.ParsePublicKey(text); err == nil {
			t.Errorf("the public key %q is accepted", text)
		}
	}
	for _, text := range []string{"", "{}", "[1", strings.Repeat(" ", release.MaxManifestBytes) + "{}"} {
		if _, err := release.ParseManifest([]byte(text)); err == nil {
			t.Errorf("the manifest %.20q is accepted", text)
		}
	}
	key, file, err := release.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	if read, err := release.ParsePrivateKey(file); err != nil || read.Public().ID() != key.Public().ID() {
		t.Errorf("the key's file is read as another key: %v", err)
	}
	if _, err := release.ParsePrivateKey([]byte("secret")); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("an unreadable key: %v", err)
	}
}

func TestFileNameHasVersionAndPlatform(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"1.2.0", "v1.2.0-rc.1", "dev-abcdef012345"} {
		if got, on, ok := release.ParseFileName(release.FileName(version, linux)); got != version || on != linux || !ok {
			t.Errorf("%s: %s %s %v", version, got, on, ok)
		}
	}
	for _, name := range []string{"quantix", "quantix-1.2.0", "quantix--linux-amd64", "quantix-1.2.0-linux-amd64.sig", "quantix-../x-linux-amd64", "other-1.2.0-linux-amd64", "quantix-1.2.0-Linux-amd64"} {
		if _, _, ok := release.ParseFileName(name); ok {
			t.Errorf("%s counts as a release", name)
		}
	}
}

func TestVersionOrder(t *testing.T) {
	t.Parallel()
	ordered := []string{"0.9.0", "v1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-rc.2", "1.0.0-rc.10", "v1.0.0", "1.0.1", "1.2.0", "1.10.0"}
	for i, a := range ordered {
		for j, b := range ordered {
			got, ok := release.Compare(a, b)
			if !ok || got < 0 != (i < j) || got > 0 != (i > j) {
				t.Errorf("%s and %s: %d %v", a, b, got, ok)
			}
		}
	}
	for _, c := range []struct {
		running, wanted string
		downgrade       bool
		refused         string
	}{
		{"1.0.0", "1.1.0", false, ""},
		{"1.1.0", "1.0.0", false, "older"},
		{"1.1.0", "1.0.0", true, ""},
		{"1.1.0", "1.1.0", true, "already"},
		{"dev-abc", "1.1.0", false, "cannot be compared"},
		{"dev-abc", "1.1.0", true, ""},
	} {
		why := release.VersionRefusal(c.running, c.wanted, c.downgrade)
		if (why == "") != (c.refused == "") || !strings.Contains(why, c.refused) {
			t.Errorf("%+v: %q", c, why)
		}
	}
}

func TestNextStageBeginsAfterCanariesOnly(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	done := func(host string, stage int, ago time.Duration) release.HostStep {
		return release.HostStep{Host: host, Stage: stage, State: fleet.JobDone, EndedAt: now.Add(-ago), Online: true, Version: "2.0.0"}
	}
	with := func(s release.HostStep, change func(*release.HostStep)) release.HostStep {
		change(&s)
		return s
	}
	held := release.HostStep{Host: "h9", Stage: 2, State: fleet.JobQueued, Held: true}
	for name, c := range map[string]struct {
		steps []release.HostStep
		begin bool
		stop  string
	}{
		"the canary runs":                  {[]release.HostStep{with(done("h1", 0, 0), func(s *release.HostStep) { s.State = fleet.JobRunning; s.Online = false })}, false, ""},
		"a canary waits":                   {[]release.HostStep{done("h1", 0, time.Hour), with(done("h2", 0, 0), func(s *release.HostStep) { s.State = fleet.JobQueued })}, false, ""},
		"too early":                        {[]release.HostStep{done("h1", 0, time.Minute)}, false, ""},
		"one canary just ended":            {[]release.HostStep{done("h1", 0, time.Hour), done("h2", 0, time.Second)}, false, ""},
		"the canary stayed online":         {[]release.HostStep{done("h1", 0, 2*time.Minute)}, true, ""},
		"later batches do not wait":        {[]release.HostStep{done("h1", 0, time.Hour), done("h2", 1, 0)}, true, ""},
		"the canary failed":                {[]release.HostStep{with(done("h1", 0, 0), func(s *release.HostStep) { s.State = fleet.JobFailed })}, false, "Not started: the upgrade of h1 failed."},
		"the canary was cancelled":         {[]release.HostStep{with(done("h1", 0, 0), func(s *release.HostStep) { s.State = fleet.JobCancelled })}, false, "Not started: the upgrade of h1 was cancelled."},
		"the canary's outcome is unknown":  {[]release.HostStep{with(done("h1", 0, 0), func(s *release.HostStep) { s.State = fleet.JobUnknown })}, false, "Not started: the outcome of the upgrade of h1 is unknown."},
		"the canary went offline":          {[]release.HostStep{with(done("h1", 0, time.Minute), func(s *release.HostStep) { s.Online = false })}, false, "Not started: h1 went offline after its upgrade."},
		"the canary has the old version":   {[]release.HostStep{with(done("h1", 0, time.Hour), func(s *release.HostStep) { s.Version = "1.0.0" })}, false, "Not started: h1 reports version 1.0.0 after its upgrade."},
		"a host of an earlier batch fails": {[]release.HostStep{done("h1", 0, time.Hour), with(done("h2", 1, 0), func(s *release.HostStep) { s.State = fleet.JobFailed }), with(done("h3", 1, 0), func(s *release.HostStep) { s.State = fleet.JobRunning })}, false, "Not started: the upgrade of h2 failed."},
	} {
		begin, stop := release.NextStage(append(c.steps, held), "2.0.0", 2*time.Minute, now)
		if begin != c.begin || stop != c.stop {
			t.Errorf("%s: %v %q", name, begin, stop)
		}
	}
}

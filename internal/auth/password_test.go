package auth

import (
	"context"
	"errors"
	"math"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alexedwards/argon2id"

	"quantix/internal/fleet"
)

func TestPasswordMatchesOnlyItsHash(t *testing.T) {
	t.Parallel()
	hash, err := HashPassword(t.Context(), "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	for password, want := range map[string]bool{"correct horse": true, "correct horsf": false} {
		if same, err := VerifyPassword(t.Context(), password, hash); err != nil || same != want {
			t.Errorf("%q matches: %v, %v", password, same, err)
		}
	}
}

func TestDummyHashHasCurrentHashParameters(t *testing.T) {
	t.Parallel()
	params, salt, key, err := argon2id.DecodeHash(dummyHash)
	if err != nil {
		t.Fatal(err)
	}
	if *params != *hashParams || len(salt) != int(hashParams.SaltLength) || len(key) != int(hashParams.KeyLength) {
		t.Fatalf("the dummy hash has the parameters %+v", *params)
	}
	if same, err := VerifyPassword(t.Context(), "anything", ""); err != nil || same {
		t.Fatalf("no account matches: %v, %v", same, err)
	}
}

func TestWeakPasswordsAreRefused(t *testing.T) {
	t.Parallel()
	for password, want := range map[string]bool{
		"123456789": false, "1234567890": false, strings.Repeat("tree-house ", 23) + "1": true, strings.Repeat("tree-house ", 24): false,
		"ALICE.JONES": false, "alice.jones!": false, "alice.likes.trees": true, "\xff\xfe567890123": false,
	} {
		var c fleet.Checks
		CheckPassword(&c, "new", "alice.jones", password)
		if ok := c.Err() == nil; ok != want {
			t.Errorf("%q is allowed: %v", password, ok)
		}
	}
}

func TestOneTimePasswordsAreReadableAndStrong(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^([2-9a-hjkmnp-tw-z]{4}-){4}[2-9a-hjkmnp-tw-z]{4}$`)
	seen := map[string]bool{}
	for range 200 {
		p := NewPassword()
		var c fleet.Checks
		if CheckPassword(&c, "new", "admin", p); !form.MatchString(p) || c.Err() != nil || seen[p] {
			t.Fatalf("%q: %v", p, c.Err())
		}
		seen[p] = true
	}
	if bits := 20 * math.Log2(float64(len(oneTimeAlphabet))); bits < 80 {
		t.Fatalf("only %.0f bits", bits)
	}
}

func TestPasswordHashingWaitsForSlotThenFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := hasher{slots: make(chan struct{}, 2), wait: 5 * time.Second}
		release := make(chan struct{})
		for range 2 {
			go func() { _ = h.runInSlot(t.Context(), func() error { <-release; return nil }) }()
		}
		synctest.Wait()
		start := time.Now()
		err := h.runInSlot(t.Context(), func() error { t.Error("a third hash ran"); return nil })
		if fleet.CodeOf(err) != fleet.TooMany || time.Since(start) != 5*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := h.runInSlot(gone, func() error { return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled caller got %v", err)
		}
		close(release)
		synctest.Wait()
		if err := h.runInSlot(t.Context(), func() error { return nil }); err != nil {
			t.Errorf("free slot refused: %v", err)
		}
	})
}

// Passwords that attackers try first are refused, also with replaced letters or additions. Other passwords are
// accepted.
func TestGuessablePasswordsRefused(t *testing.T) {
	t.Parallel()
	for _, password := range []string{
		"Password123!", "P@ssw0rd2026", "pa$$word$$$$", "5unshine99!!", "L3TM31N2020", "passwordpassword", "iloveyou1234", "Welcome2026!", "admin12345!",
		"adminadmin", "qwertyuiop", "QWERTZUIOP1", "1qaz2wsx3edc", "1q2w3e4r5t6y", "abcdefghijk", "9876543210", "0123456789a", "aaaaaaaaaaaa", "abcabcabcabc",
		"ababababab", "1212312312", "19.11.1987!", "2026-11-21 1", "mara.keller77", "M4ra.Keller!", "Quantix2026!", "dragonmonkey", "changeme1234", "!!!Summer2026",
	} {
		var c fleet.Checks
		if CheckPassword(&c, "new", "mara.keller", password); c.Err() == nil {
			t.Errorf("%q is allowed", password)
		}
	}
	for _, password := range []string{
		"correct horse battery", "another password", "wet paper boat", "k7fd-w2mq-x3pa", "Tr0ub4dor&3 pigeon", "mara keller grows lemons", "seventeen dry towels",
		"gläserne Brücke 9", "x8#Lq!2vRw", "31 crooked spoons",
	} {
		var c fleet.Checks
		if CheckPassword(&c, "new", "mara.keller", password); c.Err() != nil {
			t.Errorf("%q: %v", password, c.Err())
		}
	}
}

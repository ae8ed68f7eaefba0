package control_test

import (
	"fmt"
	"testing"
	"time"

	"quantix/internal/fleet"
)

func TestFirstStartCreatesAdminWhoMustChangePassword(t *testing.T) {
	h := newIdentityFixture(t)
	h.execSQL("DELETE FROM users")
	passwords := make([]string, 3)
	runConcurrently(3, func(i int) error {
		password, made, err := h.EnsureAdmin(t.Context(), fleet.SystemActor)
		if made != (password != "") {
			t.Errorf("made %v with password %q", made, password)
		}
		passwords[i] = password
		return err
	})
	if n := h.countRowsOf("users WHERE name = 'admin' AND must_change AND role = 'admin'"); n != 1 || h.countRowsOf("users") != 1 {
		t.Fatalf("%d admins of %d users", n, h.countRowsOf("users"))
	}
	password := passwords[0] + passwords[1] + passwords[2] // only one is not empty
	user, err := h.SignIn(t.Context(), anonymous, "admin", password)
	if err != nil || !user.MustChangePassword {
		t.Fatalf("%+v, %v", user, err)
	}
	admin, err := h.ActorOfSession(t.Context(), fleet.SystemActor, user.ID, *user.LastSeenAt)
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.ListUsers(t.Context(), admin, fleet.Query{})
	wantCode(t, err, fleet.Forbidden)
	_, err = h.CreateToken(t.Context(), admin, "early", 0)
	wantCode(t, err, fleet.Forbidden)

	began, err := h.ChangePassword(t.Context(), admin, password, goodPassword, false)
	if err != nil {
		t.Fatal(err)
	}
	if h.isSessionValid(string(user.ID), *user.LastSeenAt) {
		t.Error("the session of the old password lives on")
	}
	admin, err = h.ActorOfSession(t.Context(), fleet.SystemActor, user.ID, began)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.ListUsers(t.Context(), admin, fleet.Query{}); err != nil {
		t.Error(err)
	}
	if _, made, err := h.EnsureAdmin(t.Context(), fleet.SystemActor); made || err != nil {
		t.Errorf("made another admin: %v, %v", made, err)
	}
}

func TestSignInErrorDoesNotRevealCause(t *testing.T) {
	h := newIdentityFixture(t)
	h.addUser("idle", fleet.RoleViewer)
	h.execSQL("UPDATE users SET disabled = true WHERE id = 'idle'")
	texts := map[string]bool{}
	for _, try := range [][2]string{{"chief", "wrong password"}, {"nobody", goodPassword}, {"idle", goodPassword}, {"no such FORM", goodPassword}} {
		_, err := h.SignIn(t.Context(), anonymous, try[0], try[1])
		wantCode(t, err, fleet.Unauthorized)
		texts[err.Error()] = true
		h.wantLastAuditAction("user.signInFailed")
	}
	if len(texts) != 1 {
		t.Errorf("the refusals differ: %v", texts)
	}
	if n := h.countRowsOf("audit WHERE name NOT IN ('chief', 'idle', '') OR actor NOT IN ('chief', 'idle', '')"); n != 0 {
		t.Error("the audit log has a name that a client entered")
	}
	h.signInTime("chief")
	h.wantLastAuditAction("user.signIn")
}

func TestAccountThrottleUsesDatabaseTime(t *testing.T) {
	h := newIdentityFixture(t)
	throttle := func(failures int, ago time.Duration) {
		h.execSQL(`INSERT INTO login_throttle (key, failures, last_at) VALUES ('account:chief from 192.0.2.0/24', $1, now() - $2::interval)
			ON CONFLICT (key) DO UPDATE SET failures = EXCLUDED.failures, last_at = EXCLUDED.last_at`, failures, ago)
	}
	for _, c := range []struct {
		failures int
		ago      time.Duration
		text     string // empty: the attempt is accepted
	}{
		{4, 0, ""},
		{5, time.Second / 2, "Too many failed attempts. Try again in 2 seconds."},
		{5, 3 * time.Second, ""},
		{8, 12 * time.Second, "Too many failed attempts. Try again in 4 seconds."},
		{8, 17 * time.Second, ""},
		{1000, 10 * time.Second, "Too many failed attempts. Try again in 5 minutes."},
		{1000, 301 * time.Second, ""},
	} {
		throttle(c.failures, c.ago)
		lines := h.countRowsOf("audit")
		_, err := h.SignIn(t.Context(), anonymous, "chief", goodPassword)
		switch {
		case c.text == "" && err != nil:
			t.Errorf("after %d failures, %v ago: %v", c.failures, c.ago, err)
		case c.text == "" && h.countRowsOf("login_throttle WHERE failures <> 0") != 0:
			t.Errorf("a success leaves failures behind")
		case c.text != "":
			wantCode(t, err, fleet.TooMany)
			if err.Error() != c.text || h.countRowsOf("audit") != lines {
				t.Errorf("after %d failures, %v ago: %v, %d audit lines more", c.failures, c.ago, err, h.countRowsOf("audit")-lines)
			}
		}
	}
	throttle(1000, 16*time.Minute)
	_, err := h.SignIn(t.Context(), anonymous, "chief", "wrong password")
	wantCode(t, err, fleet.Unauthorized)
	if h.countRowsOf("login_throttle WHERE key = 'account:chief from 192.0.2.0/24' AND failures = 1") != 1 {
		t.Error("old failures still count")
	}
}

func TestSignInThrottledPerAddressAcrossAccounts(t *testing.T) {
	h := newIdentityFixture(t)
	h.execSQL("INSERT INTO login_throttle (key, failures, last_at) VALUES ('address:2001:db8:1:2::/64', 20, now())")
	for address, code := range map[string]fleet.ErrorCode{"2001:db8:1:2:ffff::9": fleet.TooMany, "2001:db8:1:3::9": "", "198.51.100.1": ""} {
		_, err := h.SignIn(t.Context(), fleet.Actor{Address: address}, "chief", goodPassword)
		if fleet.CodeOf(err) != code {
			t.Errorf("from %s: %v", address, err)
		}
	}
	// An attempt refused by the address's limit does not count against the account's limit.
	if n := h.countRowsOf("login_throttle WHERE key LIKE 'account:chief%' AND failures <> 0"); n != 0 {
		t.Error("the refused attempt counts against the account")
	}
	// A successful sign-in does not clear the failures that other accounts had from the same address.
	h.execSQL("INSERT INTO login_throttle (key, failures, last_at) VALUES ('address:192.0.2.7', 19, now())")
	h.signInTime("chief")
	if n := h.countRowsOf("login_throttle WHERE key = 'address:192.0.2.7' AND failures = 19"); n != 1 {
		t.Error("the address's failures are gone")
	}
}

func TestConcurrentGuessesAreThrottled(t *testing.T) {
	h := newIdentityFixture(t)
	got := countCodes(runConcurrently(15, func(i int) error {
		_, err := h.SignIn(t.Context(), fleet.Actor{Address: fmt.Sprintf("192.0.2.%d", i)}, "chief", "wrong password")
		return err
	}))
	if got[fleet.Unauthorized] != 5 || got[fleet.TooMany] != 10 {
		t.Errorf("got %v", got)
	}
	if n := h.countRowsOf("audit WHERE action = 'user.signInFailed'"); n != 5 {
		t.Errorf("%d audit lines", n)
	}
}

func TestPasswordChangeNeedsOldAndValidNewPassword(t *testing.T) {
	h := newIdentityFixture(t)
	for _, c := range []struct{ old, password, field string }{
		{goodPassword, "short", "new"},
		{goodPassword, goodPassword, "new"},
		{"wrong password", "another password", "old"},
	} {
		_, err := h.ChangePassword(t.Context(), chief, c.old, c.password, false)
		wantField(t, err, c.field)
	}
	h.wantLastAuditAction("user.passwordFailed")
	h.execSQL("UPDATE login_throttle SET failures = 5 WHERE key = 'password:chief'")
	_, err := h.ChangePassword(t.Context(), chief, goodPassword, "another password", false)
	wantCode(t, err, fleet.TooMany)
	h.execSQL("UPDATE login_throttle SET last_at = now() - interval '3 seconds'")
	token, err := h.CreateToken(t.Context(), chief, "ci", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.ChangePassword(t.Context(), chief, goodPassword, "another password", false); err != nil {
		t.Fatal(err)
	}
	h.wantLastAuditAction("user.changePassword")
	if _, err := h.ActorOfToken(t.Context(), anonymous, token.Secret); err != nil {
		t.Errorf("the API token: %v", err)
	}
	_, err = h.SignIn(t.Context(), anonymous, "chief", goodPassword)
	wantCode(t, err, fleet.Unauthorized)
}

func TestPasswordSetByAdminMustBeChanged(t *testing.T) {
	h := newIdentityFixture(t)
	ann := h.addUser("ann", fleet.RoleViewer)
	began := h.signInTime("ann")
	var programs []string
	for _, who := range []fleet.Actor{ann, ann, chief} {
		token, err := h.CreateToken(t.Context(), who, "ci", 0)
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, token.Secret)
	}
	wantField(t, h.SetPassword(t.Context(), chief, "ann", "short"), "password")
	wantField(t, h.SetPassword(t.Context(), chief, "ann", goodPassword), "password")
	wantCode(t, h.SetPassword(t.Context(), chief, "chief", "another password"), fleet.Conflict)
	wantCode(t, h.SetPassword(t.Context(), chief, "bob", "another password"), fleet.NotFound)
	if !h.isSessionValid("ann", began) {
		t.Error("a refusal ended the session")
	}
	if err := h.SetPassword(t.Context(), chief, "ann", "another password"); err != nil {
		t.Fatal(err)
	}
	h.wantLastAuditAction("user.setPassword")
	if h.countRowsOf("audit WHERE action = 'user.setPassword' AND detail = 'API tokens deleted: 2'") != 1 {
		t.Error("the audit line does not say how many API tokens went")
	}
	if h.isSessionValid("ann", began) {
		t.Error("the session of the old password lives on")
	}
	for _, secret := range programs[:2] {
		_, err := h.ActorOfToken(t.Context(), anonymous, secret)
		wantCode(t, err, fleet.Unauthorized)
	}
	if _, err := h.ActorOfToken(t.Context(), anonymous, programs[2]); err != nil {
		t.Errorf("another's token: %v", err)
	}
	user, err := h.SignIn(t.Context(), anonymous, "ann", "another password")
	if err != nil || !user.MustChangePassword {
		t.Errorf("%+v, %v", user, err)
	}
}

func TestUserLastSeenUpdatedOncePerMinute(t *testing.T) {
	h := newIdentityFixture(t)
	began := h.signInTime("chief")
	h.isSessionValid("chief", began)
	if h.countRowsOf("users WHERE last_seen_at = $1", began) != 1 {
		t.Error("each request writes the user's row")
	}
	h.execSQL("UPDATE users SET last_seen_at = now() - interval '2 minutes'")
	h.isSessionValid("chief", began)
	if h.countRowsOf("users WHERE last_seen_at > now() - interval '1 minute'") != 1 {
		t.Error("the visit was not noted")
	}
}

// After five wrong passwords from one network, unknown browsers of that network must wait. A known browser of the
// account need not wait.
func TestSignInFailuresOfOtherClientsDoNotLockOutKnownBrowser(t *testing.T) {
	h := newIdentityFixture(t)
	from := func(address, browser, password string) error {
		_, err := h.SignIn(t.Context(), fleet.Actor{Address: address, Browser: browser}, "chief", password)
		return err
	}
	secret, err := h.RememberBrowser(t.Context(), fleet.SystemActor, "chief", "made up")
	if err != nil || secret == "made up" {
		t.Fatalf("%q %v", secret, err)
	}
	for i := range 5 {
		wantCode(t, from(fmt.Sprintf("198.51.100.%d", i), "", "wrong password"), fleet.Unauthorized)
	}
	wantCode(t, from("198.51.100.77", "", goodPassword), fleet.TooMany)
	if err := from("192.0.2.7", "", goodPassword); err != nil {
		t.Errorf("from another network: %v", err)
	}
	if err := from("198.51.100.77", secret, goodPassword); err != nil {
		t.Errorf("a known browser in the attacker's network: %v", err)
	}
	// After failures from many networks, unknown browsers are refused and known browsers are accepted.
	h.execSQL("UPDATE login_throttle SET failures = 100, last_at = now() WHERE key = 'account:chief'")
	wantCode(t, from("203.0.113.1", "", goodPassword), fleet.TooMany)
	wantCode(t, from("203.0.113.1", "made up", goodPassword), fleet.TooMany)
	if err := from("203.0.113.1", secret, goodPassword); err != nil {
		t.Errorf("a known browser: %v", err)
	}
	// A browser is known only to the account that signed in with it. Attempts with a stolen browser secret are limited
	// too.
	h.addUser("ann", fleet.RoleViewer)
	h.execSQL("INSERT INTO login_throttle (key, failures, last_at) VALUES ('account:ann', 100, now())")
	_, err = h.SignIn(t.Context(), fleet.Actor{Address: "203.0.113.1", Browser: secret}, "ann", goodPassword)
	wantCode(t, err, fleet.TooMany)
	for range 10 {
		wantCode(t, from("203.0.113.1", secret, "wrong password"), fleet.Unauthorized)
	}
	wantCode(t, from("203.0.113.1", secret, goodPassword), fleet.TooMany)
	// After an administrator sets the password, the account has no known browsers.
	if err := h.SetPassword(t.Context(), fleet.SystemActor, "chief", "another password"); err != nil {
		t.Fatal(err)
	}
	if n := h.countRowsOf("browsers"); n != 0 {
		t.Errorf("%d browsers are still known", n)
	}
}

func TestKnownBrowsersPerAccountAreLimited(t *testing.T) {
	h := newIdentityFixture(t)
	first, err := h.RememberBrowser(t.Context(), fleet.SystemActor, "chief", "")
	if err != nil {
		t.Fatal(err)
	}
	for range 25 {
		if again, err := h.RememberBrowser(t.Context(), fleet.SystemActor, "chief", first); err != nil || again != first {
			t.Fatalf("%q is %q at the next sign-in: %v", first, again, err)
		}
		if _, err := h.RememberBrowser(t.Context(), fleet.SystemActor, "chief", ""); err != nil {
			t.Fatal(err)
		}
	}
	if n := h.countRowsOf("browsers"); n != 20 {
		t.Errorf("%d browsers are known", n)
	}
	_, err = h.RememberBrowser(t.Context(), chief, "chief", "")
	wantCode(t, err, fleet.Forbidden)
}

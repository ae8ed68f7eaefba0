package auth

import (
	_ "embed"
	"strings"
	"unicode"
)

//go:embed common.txt
var commonText string

// commonSet is the set of words in commonText. Most passwords that attackers guess are based on them.
var commonSet = func() map[string]bool {
	words := map[string]bool{}
	for w := range strings.FieldsSeq(commonText) {
		words[w] = true
	}
	return words
}()

// guessableReason returns why a password is easy to guess, as a clause; empty: it is not. It ignores case, digits in
// place of letters ("p4$$w0rd") and additions at the start or end ("password2026!").
func guessableReason(userName, password string) string {
	folded := strings.ToLower(password)
	switch {
	case isRepetitive(folded):
		return "repeats the same few characters"
	case isSequential(folded):
		return "is a row of letters, digits or keyboard keys"
	case strings.Trim(folded, "0123456789 .,:;-_/!?#+*") == "" && len(folded) < 20:
		return "is a number, such as a date or a telephone number"
	}
	for _, letters := range letterForms(folded) {
		switch {
		case letters == lettersOf(strings.ToLower(userName)):
			return "is the user name with something added"
		case isCommonWords(letters):
			return "is one that attackers try first"
		}
	}
	return ""
}

// isRepetitive reports whether text has at most three different characters, or repeats one group of up to six
// characters.
func isRepetitive(text string) bool {
	runes := []rune(text)
	different := map[rune]bool{}
	for _, r := range runes {
		different[r] = true
	}
	if len(different) <= 3 {
		return true
	}
	for size := 1; size <= 6 && size*2 <= len(runes); size++ {
		same := 0
		for i := size; i < len(runes); i++ {
			if runes[i] == runes[i-size] {
				same++
			}
		}
		if same == len(runes)-size {
			return true
		}
	}
	return false
}

// keyboardRows are sequences of adjacent keys on common keyboard layouts.
var keyboardRows = []string{"1234567890", "qwertyuiop", "qwertzuiop", "azertyuiop", "asdfghjkl", "zxcvbnm", "yxcvbnm", "1qaz2wsx3edc4rfv5tgb6yhn7ujm8ik9ol0p", "q1w2e3r4t5y6u7i8o9p0"}

// isSequential reports whether at least four of five steps in text lead to a neighbour in a keyboard row, in the
// alphabet or among the digits, in either direction.
func isSequential(text string) bool {
	runes := []rune(text)
	steps := 0
	for i := 1; i < len(runes); i++ {
		if areAdjacentCharacters(runes[i-1], runes[i]) {
			steps++
		}
	}
	return len(runes) > 1 && steps*5 >= (len(runes)-1)*4
}

func areAdjacentCharacters(a, b rune) bool {
	if d := b - a; d >= -1 && d <= 1 {
		return true
	}
	for _, row := range keyboardRows {
		i, j := strings.IndexRune(row, a), strings.IndexRune(row, b)
		if i >= 0 && j >= 0 && (i-j == 1 || j-i == 1) {
			return true
		}
	}
	return false
}

// asLetters replaces digits and signs by the letters that they resemble. "1" and "!" resemble both i and l, so there
// are two tables for them.
var asLetters = []*strings.Replacer{
	strings.NewReplacer(),
	strings.NewReplacer("0", "o", "1", "i", "!", "i", "|", "i", "3", "e", "€", "e", "4", "a", "@", "a", "5", "s", "$", "s", "7", "t", "+", "t", "8", "b", "9", "g", "2", "z"),
	strings.NewReplacer("0", "o", "1", "l", "!", "l", "|", "l", "3", "e", "€", "e", "4", "a", "@", "a", "5", "s", "$", "s", "7", "t", "+", "t", "8", "b", "9", "g", "2", "z"),
}

// letterForms returns the texts that a password may mean if its digits and signs replace letters, with and without the
// characters before the first and after the last letter.
func letterForms(folded string) []string {
	noLetter := func(r rune) bool { return !unicode.IsLetter(r) }
	var out []string
	for _, part := range []string{folded, strings.TrimRightFunc(folded, noLetter), strings.TrimLeftFunc(folded, noLetter), strings.TrimFunc(folded, noLetter)} {
		for _, letters := range asLetters {
			if letters := lettersOf(letters.Replace(part)); letters != "" {
				out = append(out, letters)
			}
		}
	}
	return out
}

// lettersOf removes all characters other than letters.
func lettersOf(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) {
			return r
		}
		return -1
	}, text)
}

// isCommonWords reports whether letters is one common word or two of them.
func isCommonWords(letters string) bool {
	if commonSet[letters] {
		return true
	}
	for i := range letters {
		if commonSet[letters[:i]] && (commonSet[letters[i:]] || len(letters[i:]) < 3) {
			return true
		}
	}
	return false
}

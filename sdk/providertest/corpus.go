package providertest

import "strings"

// ArgvCorpus are the arguments that every backend must pass on byte for byte,
// or refuse by field where Guarantees.Argv is less than exact: the
// metacharacters of shells and of the backends' own substitutions among them.
func ArgvCorpus() []string {
	return []string{
		"",
		"plain",
		" ",
		" leading and trailing ",
		"two  spaces",
		"\t tab",
		"new\nline",
		"\n",
		"trailing newline\n",
		"carriage\rreturn",
		`"double"`,
		`'single'`,
		`it's`,
		`a"b'c`,
		`back\slash`,
		`trailing\`,
		`\n`,
		"`backtick`",
		"$HOME",
		"${HOME}",
		"${x}",
		"$$",
		"$$$",
		"$",
		"$(HOME)",
		"$(X)",
		"$$(X)",
		"$(echo injected)",
		"Ref::x",
		"Ref::",
		"{{x}}",
		"{{inputs.parameters.x}}",
		"{{{x}}}",
		"{%x%}",
		"%PATH%",
		"%s%d%n",
		"-",
		"--",
		"-n",
		"--flag=value",
		"-e",
		"*",
		"?",
		"[a-z]*",
		"~",
		"~root",
		"!",
		"!!",
		"#comment",
		";",
		"a;b",
		"&&",
		"a & b",
		"|",
		"> /tmp/x",
		"<",
		"(x)",
		"{a,b}",
		"a=b",
		"@file",
		"null",
		"true",
		"1e5",
		`{"json": [1, "two"]}`,
		"é",
		"家",
		"🚀",
		"e\u0301",
		"\u202e",
		"\ufeffbom",
		"\x01\x02\x7f",
		"\x1b[31mred\x1b[0m",
		strings.Repeat("long ", 1000),
	}
}

// ArgvBytes are arguments that are not UTF-8: they arrive byte for byte or are
// refused by field.
func ArgvBytes() []string {
	return []string{"\xff", "a\xffb", "\xc3", "\xed\xa0\x80", "\xf0\x9f\x9a"}
}

// EnvCorpus are values of variables, under the same rule.
func EnvCorpus() []string {
	return []string{"", "plain", " spaces ", "a=b", `"quoted"`, `it's`, "$HOME", "${HOME}", "$(HOME)", "$$", "{{x}}", "Ref::x",
		"back\\slash", "two\nlines", "é家🚀", "#no comment", "%s", strings.Repeat("v", 4000)}
}

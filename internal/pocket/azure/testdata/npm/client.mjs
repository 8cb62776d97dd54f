// Goes through a secret's life with Microsoft's client for Key Vault, and prints
// what it saw as JSON. Arguments: the address of the pocket Azure, the tenant.
import {createRequire} from 'node:module';
const require = createRequire(process.cwd() + '/');
const {SecretClient} = require('@azure/keyvault-secrets');
const [url, tenant] = process.argv.slice(2);
const out = {asked: []};

const credential = {
	async getToken(scopes, options) {
		out.asked.push([scopes, options.tenantId]);
		const body = new URLSearchParams({grant_type: 'client_credentials', client_id: 'node', client_secret: 'secret', scope: [scopes].flat().join(' ')});
		const reply = await (await fetch(`${url}/${tenant}/oauth2/v2.0/token`, {method: 'POST', body})).json();
		return {token: reply.access_token, expiresOnTimestamp: Date.now() + reply.expires_in * 1000};
	},
};
const client = new SecretClient(url, credential, {disableChallengeResourceVerification: true, retryOptions: {maxRetries: 0}});
const refused = async call => {
	try {
		await call();
	} catch (e) {
		return {status: e.statusCode, code: e.code};
	}
};

const first = await client.setSecret('db', 'hush', {tags: {a: 'b'}, contentType: 'text/plain'});
out.set = {value: first.value, tags: first.properties.tags, type: first.properties.contentType, vault: first.properties.vaultUrl === url, enabled: first.properties.enabled, days: first.properties.recoverableDays};
await client.setSecret('db', 'louder');
out.last = (await client.getSecret('db')).value;
out.first = (await client.getSecret('db', {version: first.properties.version})).value;
out.missing = await refused(() => client.getSecret('none'));
out.version = await refused(() => client.getSecret('db', {version: '0'.repeat(32)}));
await client.updateSecretProperties('db', first.properties.version, {enabled: false});
out.disabled = await refused(() => client.getSecret('db', {version: first.properties.version}));
for (let i = 0; i < 30; i++) await client.setSecret('many-' + i, 'x');
const names = [];
let pages = 0;
for await (const page of client.listPropertiesOfSecrets().byPage()) {
	pages++;
	for (const p of page) names.push(p.name);
}
out.listed = {pages, names: names.length, db: names.includes('db')};
const versions = [];
for await (const p of client.listPropertiesOfSecretVersions('db')) versions.push(p.enabled);
out.versions = versions.sort();
const deleted = await (await client.beginDeleteSecret('db', {intervalInMs: 10})).pollUntilDone();
out.deleted = deleted.name;
out.gone = await refused(() => client.getSecret('db'));
out.taken = await refused(() => client.setSecret('db', 'again'));
await client.purgeDeletedSecret('db');
out.again = (await client.setSecret('db', 'again')).value;
console.log(JSON.stringify(out));
